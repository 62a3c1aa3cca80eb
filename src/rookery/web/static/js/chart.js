// Curves, drawn by uPlot in the colours of the page.

import { h } from "./dom.js";
import { number, short } from "./format.js";

const COLOURS = ["#1f78b4", "#e66101", "#1a9850", "#7b3294", "#d01c8b", "#8c6d31", "#00838f", "#b2182b"];
export const colour = (index) => COLOURS[index % COLOURS.length];

/**
 * A chart in `container`.
 *   label      what it shows, for people who do not see it
 *   series     [{label, colour, width, dash, fill, points}]: curves after the first column, which is x
 *   bands      uPlot's, such as [{series: [2, 3], fill: "#1f78b422"}]
 *   onRange    called with (from, to) after a zoom, (null, null) after it is undone by a double click
 * Returns {set(data), destroy(), plot}. `data` is [x, y1, y2, ...], each an array; null is a gap.
 */
export function chart(container, { label, series, xLabel = "steps", height = 220, bands = [], onRange = null, scales = {}, axes = null }) {
  const box = h("div", { class: "chart", role: "img", "aria-label": label });
  container.append(box);
  const options = {
    width: Math.max(200, box.clientWidth || 600), height, scales: { x: { time: false }, ...scales }, bands,
    series: [{ label: xLabel, value: (_, v) => (v == null ? "" : short(v)) }, ...series.map(curve)],
    axes: axes ?? [axis(xLabel), axis("")],
    legend: { live: true }, cursor: { drag: { x: true, y: false, setScale: onRange === null } },
    hooks: onRange ? { setSelect: [selected(onRange)] } : {},
  };
  let plot = new globalThis.uPlot(options, [[], ...series.map(() => [])], box);
  if (onRange) plot.over.addEventListener("dblclick", () => onRange(null, null));
  const resize = new ResizeObserver(() => plot.setSize({ width: Math.max(200, box.clientWidth), height }));
  resize.observe(box);
  return {
    plot,
    set(data) { plot.setData(data); },
    destroy() { resize.disconnect(); plot.destroy(); box.remove(); },
  };
}

function curve(given, index) {
  const stroke = given.colour ?? colour(index);
  return {
    label: given.label, stroke, width: given.width ?? 1.5, dash: given.dash, fill: given.fill, scale: given.scale,
    points: given.points ?? { show: false }, spanGaps: true, value: (_, v) => (v == null ? "" : number(v)),
  };
}

function axis(label) {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return {
    label: label || undefined, labelSize: 18, size: 54, stroke: () => css("--text-2"),
    grid: { stroke: () => css("--line"), width: 1 }, ticks: { stroke: () => css("--line"), width: 1 },
    values: (_, ticks) => ticks.map((value) => (value == null ? "" : short(value))),
  };
}

const selected = (onRange) => (plot) => {
  if (plot.select.width < 4) return;
  onRange(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
  plot.setSelect({ width: 0, height: 0 }, false);
};

/** A small curve of a few values for a table. */
export function spark(values, { width = 96, height = 22 } = {}) {
  const canvas = h("canvas", { width: width * 2, height: height * 2, class: "spark", "aria-hidden": "true" });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return canvas;
  const low = Math.min(...known), high = Math.max(...known), span = high - low || 1, pen = canvas.getContext("2d");
  pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
  pen.lineWidth = 2.5;
  pen.lineJoin = "round";
  known.forEach((value, i) => pen.lineTo(3 + (i / (known.length - 1)) * (2 * width - 6), 2 * height - 4 - ((value - low) / span) * (2 * height - 8)));
  pen.stroke();
  return canvas;
}
