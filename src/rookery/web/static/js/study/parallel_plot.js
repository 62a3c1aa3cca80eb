// Parallel coordinates: each trial a line over its parameters and its value. A range dragged on an axis keeps those in
// it.

import { h } from "../dom.js";
import { count } from "../format.js";
import { css, extent, penFor, scale } from "./dot_plot.js";

const MOST = 2000, BEST = 200, TOP = 34, BOTTOM = 14, SIDE = 46, GRAB = 18;

/** The plot in `container`; `set(store, maximise)` draws it. */
export function parallelPlot(container, { height = 320, label }) {
  const canvas = h("canvas", { class: "dot-plot", role: "img", "aria-label": label });
  const said = h("p", { class: "muted small", role: "status" });
  const clear = h("button", { type: "button", class: "quiet", hidden: true, onclick: all }, "Show all trials again");
  const box = h("div", { class: "plot-box scroll", tabindex: 0, role: "region", "aria-label": label }, canvas);
  container.append(box, h("div", { class: "row" }, said, clear));
  let axes = [], given = null, frame = 0, kept = new Map(), drag = null;

  function all() { kept = new Map(); later(); }

  function draw() {
    frame = 0;
    if (!given || !box.clientWidth) return;
    const { store, maximise } = given, size = { width: Math.max(box.clientWidth, 110 * axes.length), height };
    const pen = penFor(canvas, size), gap = (size.width - 2 * SIDE) / Math.max(1, axes.length - 1);
    axes.forEach((axis, k) => { axis.x = SIDE + k * gap; });
    const inside = kept.size ? store.comparable.filter(isKept) : store.comparable;
    const lines = chosen(inside, store.values[0], maximise);
    lines.forEach((i, k) => { drawTrial(pen, i, k / Math.max(1, lines.length - 1)); });
    for (const axis of axes) drawAxis(pen, axis, gap);
    clear.hidden = !kept.size;
    const sample = `of ${count(inside.length)} trials: the best ${BEST}, and others evenly over all values`;
    const drawn = `${count(lines.length)} ${lines.length < inside.length ? sample : "trials"}`;
    said.textContent = `${drawn}. Drag along an axis to keep the trials in a range.`;
  }

  function isKept(i) {
    return axes.every(({ name, column, scale: { place } }) => {
      const range = kept.get(name), at = place(column[i]);
      return !range || (at >= range[0] && at <= range[1]);
    });
  }

  function drawTrial(pen, i, rank) {
    pen.strokeStyle = lineColour(rank);
    pen.lineWidth = rank > 0.97 ? 1.6 : 0.8;
    pen.globalAlpha = 0.25 + 0.6 * rank ** 3;
    pen.beginPath();
    let isOpen = false;
    for (const axis of axes) {
      const value = axis.column[i], isKnown = !Number.isNaN(value);
      if (isKnown) pen[isOpen ? "lineTo" : "moveTo"](axis.x, yOf(axis.scale.place(value)));
      isOpen = isKnown;
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  const yOf = (place) => TOP + (1 - place) * (height - TOP - BOTTOM);

  function drawAxis(pen, axis, gap) {
    pen.strokeStyle = css("--line-2");
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(axis.x, TOP);
    pen.lineTo(axis.x, height - BOTTOM);
    pen.stroke();
    pen.fillStyle = css("--text");
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(axis.title, Math.max(SIDE, Math.min(axis.x, pen.canvas.clientWidth - SIDE)), 14, gap - 6);
    for (const [value, text] of axis.scale.marks) mark(pen, text, axis.x, yOf(axis.scale.place(value)));
    const range = kept.get(axis.name);
    if (!range) return;
    pen.fillStyle = css("--accent");
    pen.globalAlpha = 0.3;
    pen.fillRect(axis.x - 6, yOf(range[1]), 12, yOf(range[0]) - yOf(range[1]));
    pen.globalAlpha = 1;
  }

  function mark(pen, text, x, y) {
    if (y < TOP - 2 || y > height - BOTTOM + 2) return;
    pen.textAlign = "left";
    pen.lineWidth = 3;
    pen.strokeStyle = css("--card");
    pen.strokeText(text, x + 5, y, 60);
    pen.fillStyle = css("--text-2");
    pen.fillText(text, x + 5, y, 60);
  }

  const later = () => { frame ||= requestAnimationFrame(draw); };
  const where = (event) => {
    const bounds = canvas.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  };
  const placeOf = (y) => Math.max(0, Math.min(1, 1 - (y - TOP) / (height - TOP - BOTTOM)));
  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = where(event), axis = axes.find((one) => Math.abs(one.x - x) < GRAB);
    if (!axis) return;
    drag = { axis, from: placeOf(y) };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const to = placeOf(where(event)[1]);
    kept.set(drag.axis.name, [Math.min(drag.from, to), Math.max(drag.from, to)]);
    later();
  });
  canvas.addEventListener("pointerup", () => {
    const range = drag && kept.get(drag.axis.name);
    if (drag && (!range || range[1] - range[0] < 0.01)) kept.delete(drag.axis.name);
    drag = null;
    later();
  });
  const resize = new ResizeObserver(later);
  resize.observe(box);
  addEventListener("theme", later);
  return {
    set(store, maximise) {
      given = { store, maximise };
      const known = store.space.filter(({ name }) => store.params[name]);
      axes = [...known.map((param) => axisOf(param, store.params[param.name], store.comparable)),
        axisOf({ name: "value" }, store.values[0], store.comparable)];
      later();
    },
    destroy() { cancelAnimationFrame(frame); resize.disconnect(); removeEventListener("theme", later); box.remove(); },
  };
}

function axisOf({ name, log, choices }, column, places) {
  const [low, high] = extent(column, places);
  return { name, title: name.split(".").at(-1), column, scale: scale({ low, high, log, choices }) };
}

/** From the worst to the best of those that are drawn: all of the best, and others evenly over the rest. */
function chosen(places, value, maximise) {
  const sign = maximise ? 1 : -1, sorted = places.slice().sort((a, b) => sign * (value[a] - value[b]));
  if (sorted.length <= MOST) return sorted;
  const rest = sorted.length - BEST, some = MOST - BEST;
  return [...Array.from({ length: some }, (_, k) => sorted[Math.floor((k * rest) / some)]), ...sorted.slice(rest)];
}

/** From grey over blue to green: the best are seen first. */
function lineColour(rank) {
  const dark = document.documentElement.dataset.theme === "dark";
  const light = dark ? 40 + 22 * rank : 72 - 38 * rank;
  return `hsl(${Math.round(212 - 55 * rank ** 2)} ${Math.round(8 + 62 * rank)}% ${light}%)`;
}
