// Curves, drawn by uPlot in the colours of the page, with a legend of buttons and figures at the cursor.

import { area, between, line } from "./chart_paths.js";
import { h, put } from "./dom.js";
import { duration, number, short, utc } from "./format.js";
import { uPlot } from "./uplot.js";

// Each is seen on the light and on the dark page (a contrast of at least 3.5 with both).
const COLOURS = [
  "#2f7fd4", "#d9651a", "#1f9a55", "#9a62d6", "#d6418f", "#0f93a0", "#9c7730", "#dc4a3d", "#6f7f94", "#7f8c0c",
];
// Seconds between two labels of an axis of time: whole minutes, hours and days.
const MINUTES_AND_HOURS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200];
const DAYS = [1, 2, 5, 10, 20, 50, 100].map((days) => 86400 * days);
const TIME = { space: 90, incrs: [...MINUTES_AND_HOURS, ...DAYS] };
const DATES = { ...TIME, space: 95, values: (_, ticks) => ticks.map((time) => utc(time).replace(" ", "\n")) };
const DASHES = [undefined, [7, 4], [2, 3], [10, 3, 2, 3]];
export const colour = (index) => COLOURS[index % COLOURS.length];
/** A second way to tell curves apart, once all colours are used. */
export const dash = (index) => DASHES[Math.floor(index / COLOURS.length) % DASHES.length];

/** Two curves, of which the first is in column `low`, with the area between them, as `series` of a chart. */
export function band(index, low) {
  const edge = { legend: false, width: 0, colour: "transparent" };
  return [{ ...edge, label: "low" }, { ...edge, label: "high", fill: `${colour(index)}2e`, down: low }];
}

/**
 * A chart in `container`.
 *   label      what it shows, for people who do not see it
 *   series     [{label, colour, width, dash, fill, down, points, paths, scale, legend, told}]: curves after the first
 *              column, which is x; fill: an area of this colour instead of a line, to 0 or to the column `down`;
 *              legend: false is a curve without a name, such as the edge of a band; told(row): the value that is shown
 *              at the cursor, if not the one that is drawn
 *   xText      an x value as text; yText likewise at the cursor, yTicks on the axis
 *   legend     whether to show one; without a word, where there are several curves
 *   onRange    called with (from, to) after a zoom or a move, (null, null) after it is undone
 * Returns {set(data, range), range(from, to), destroy(), plot}. `data` is [x, y1, y2, ...], each an array; null is a
 * gap. `range` is [from, to] on the x axis, or null for all of it.
 */
export function chart(container, {
  label, series, xLabel = "steps", height = 220, onRange = null, scales = {}, axes = null,
  xText = short, yText = number, yTicks = short, legend = series.filter((one) => one.legend !== false).length > 1,
}) {
  const box = h("div", { class: "chart", role: onRange ? "group" : "img", "aria-label": label });
  container.append(box);
  const options = {
    width: Math.max(200, box.clientWidth || 600), height, scales: { x: { time: false }, ...scales },
    series: [{ label: xLabel }, ...series.map(curve)], padding: [null, xText === utc ? 34 : null, null, null],
    axes: axes ?? [axis(xLabel, xText, xText === utc ? 42 : 28), axis("", yTicks, 54)],
    legend: { show: false }, cursor: { drag: { x: true, y: false, setScale: onRange === null }, points: { size: 6 } },
    hooks: onRange ? { setSelect: [selected(onRange)] } : {}, plugins: [tooltip({ xText, yText })],
  };
  const plot = new uPlot(options, [[], ...series.map(() => [])], box);
  if (onRange) zoomable(box, plot, onRange);
  const names = legend ? legendOf(plot) : null;
  if (names) container.append(names);
  const resize = new ResizeObserver(() => plot.setSize({ width: Math.max(200, box.clientWidth), height }));
  resize.observe(box);
  const recolour = () => plot.redraw(false);
  addEventListener("theme", recolour);
  return {
    plot,
    set(data, range = null) {
      plot.batch(() => {
        plot.setData(data, range === null);
        if (range) plot.setScale("x", { min: range[0], max: range[1] });
      });
    },
    range(from, to) {
      const x = plot.data[0], all = { min: x[0] ?? null, max: x[x.length - 1] ?? null };
      plot.setScale("x", from === null ? all : { min: from, max: to });
    },
    destroy() {
      removeEventListener("theme", recolour);
      resize.disconnect();
      plot.destroy();
      box.remove();
      names?.remove();
    },
  };
}

function curve(given, index) {
  const stroke = given.colour ?? colour(index);
  return {
    label: given.label, stroke, colour: stroke, width: given.fill ? 0 : given.width ?? 1.75, dash: given.dash,
    fill: given.fill, scale: given.scale ?? "y", points: given.points ?? { show: false },
    paths: given.paths ?? pathsOf(given), spanGaps: true, told: given.told, named: given.legend !== false,
  };
}

const pathsOf = ({ fill, down }) => (fill ? (down ? between(down) : area) : line);

/** An axis in the colours of the page; `text` turns a value into a label, `size` is its room in pixels. */
function axis(label, text = short, size = 54) {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return {
    label: label || undefined, labelSize: 18, labelGap: 0, size, gap: 6, stroke: () => css("--text-2"),
    font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
    grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false },
    values: (_, ticks) => ticks.map((value) => (value == null ? "" : text(value))),
    ...(text === duration ? TIME : text === utc ? DATES : {}),
  };
}

/** A button for each named curve, which hides and shows it. */
function legendOf(plot) {
  const buttons = plot.series.map((one, index) => index > 0 && one.named && h("button", {
    type: "button", "aria-pressed": "true", title: `Hide or show ${one.label}`, onclick: (event) => {
      const shown = !plot.series[index].show;
      plot.setSeries(index, { show: shown });
      event.currentTarget.setAttribute("aria-pressed", shown);
    },
  }, h("i", { class: "swatch", style: { background: one.colour } }), h("span", {}, one.label)));
  return h("div", { class: "legend" }, buttons);
}

/** A vertical line at a place on the x axis, which stays there while the curves move. Returns {set(x)}. */
export function marker(plot) {
  const line = h("div", { class: "chart-marker", hidden: true });
  let at = null;
  const draw = () => {
    const { min, max } = plot.scales.x;
    line.hidden = at === null || !(at >= min && at <= max);
    if (!line.hidden) line.style.left = `${(100 * (at - min)) / (max - min || 1)}%`;
  };
  plot.over.append(line);
  onDraw(plot, draw);
  return { set(x) { at = x; draw(); } };
}

/** Call `tell` after each drawing. */
export function onDraw(plot, tell) { plot.hooks.draw = [...(plot.hooks.draw ?? []), tell]; }

const selected = (onRange) => (plot) => {
  if (plot.select.width < 4) return;
  onRange(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
  plot.setSelect({ width: 0, height: 0 }, false);
};

// Zoom and move a chart by mouse and by keyboard.

/**
 * Let `onRange(from, to)` be called after a zoom or a move, with (null, null) after it is undone: a double click undoes
 * it, Shift and drag moves the curves; with the chart in focus + and - zoom, ← and → move, 0 shows all. (uPlot itself
 * tells of a drag without Shift.)
 */
function zoomable(box, plot, onRange) {
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

// What the curves of a chart are at the cursor.

const MOST = 12; // lines

/** A plugin of uPlot: x, and the values of all named curves, the largest first, the one nearest to the cursor bold. */
function tooltip({ xText, yText }) {
  const box = h("div", { class: "tooltip", hidden: true });

  function follow(plot) {
    const { idx, left, top } = plot.cursor, lines = idx == null || left < 0 ? [] : linesAt(plot, idx, top);
    box.hidden = lines.length === 0;
    if (box.hidden) return;
    put(box, h("b", {}, `${plot.series[0].label} ${xText(plot.data[0][idx])}`), lines.map(row));
    place(plot, box, left, top);
  }

  function row({ near, colour, label, told }) {
    const swatch = h("i", { class: "swatch", style: { background: colour } });
    return h("div", { class: near && "near" }, swatch, h("span", { class: "name" }, label), h("span", {}, yText(told)));
  }

  return {
    hooks: {
      init: [(plot) => {
        plot.over.append(box);
        plot.over.addEventListener("mouseleave", () => { box.hidden = true; });
      }],
      setCursor: [follow],
    },
  };
}

function linesAt(plot, idx, top) {
  const lines = [];
  plot.series.forEach((one, i) => {
    const value = i > 0 && one.show && one.named ? nearest(plot.data[i], idx) : null;
    if (value === null) return;
    const away = Math.abs(plot.valToPos(value, one.scale) - top), told = one.told ? one.told(idx) : value;
    lines.push({ label: one.label, colour: one.colour, value, told, away });
  });
  const closest = [...lines].sort((a, b) => a.away - b.away).slice(0, MOST);
  if (closest.length > 1) closest[0].near = true;
  return closest.sort((a, b) => b.value - a.value);
}

/** The known value next to a place: curves whose x differ share one column of x, with gaps. */
function nearest(values, idx) {
  for (let away = 0; away < values.length; away++) {
    const value = values[idx - away] ?? values[idx + away];
    if (value !== null && value !== undefined) return value;
    if (idx - away < 0 && idx + away >= values.length) break;
  }
  return null;
}

function place(plot, box, left, top) {
  const room = plot.over.clientWidth, width = box.offsetWidth, height = box.offsetHeight;
  box.style.left = `${left + width + 24 > room ? Math.max(0, left - width - 12) : left + 12}px`;
  box.style.top = `${Math.max(0, Math.min(top + 8, plot.over.clientHeight - height))}px`;
}
