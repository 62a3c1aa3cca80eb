// Zoom and move a chart by mouse and by keyboard.

/**
 * Let `onRange(from, to)` be called after a zoom or a move, with (null, null) after it is undone: a double click undoes
 * it, Shift and drag moves the curves; with the chart in focus + and - zoom, ← and → move, 0 shows all. (uPlot itself
 * tells of a drag without Shift.)
 */
export function zoomable(box, plot, onRange) {
  box.tabIndex = 0;
  box.addEventListener("keydown", (event) => byKey(event, plot, onRange));
  plot.over.addEventListener("dblclick", () => onRange(null, null));
  plot.over.addEventListener("mousedown", (event) => {
    if (!event.shiftKey || event.button) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    moveWith(plot, event.clientX, onRange);
  }, true);
}

/** Move the curves with the mouse until its button is released. */
function moveWith(plot, start, onRange) {
  const { min, max } = plot.scales.x, per = (max - min) / plot.over.clientWidth;
  const move = (event) => onRange(min - (event.clientX - start) * per, max - (event.clientX - start) * per);
  document.addEventListener("mousemove", move);
  document.addEventListener("mouseup", () => document.removeEventListener("mousemove", move), { once: true });
}

function byKey(event, plot, onRange) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget) return;
  const { min, max } = plot.scales.x, next = min == null ? undefined : nextRange(event.key, min, max);
  if (next === undefined) return;
  event.preventDefault();
  onRange(...next);
}

/** The range after a key: "+", "-", "ArrowLeft", "ArrowRight" or "0"; undefined after any other. */
export function nextRange(key, from, to) {
  const span = to - from, middle = (from + to) / 2;
  switch (key) {
    case "+": case "=": return [middle - span / 4, middle + span / 4];
    case "-": return [middle - span, middle + span];
    case "ArrowLeft": return [from - span / 4, to - span / 4];
    case "ArrowRight": return [from + span / 4, to + span / 4];
    case "0": return [null, null];
    default: return undefined;
  }
}
