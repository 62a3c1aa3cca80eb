// The bar above the charts: the x axis, and zooming without a mouse.

import { nextRange } from "../chart_zoom.js";
import { h } from "../dom.js";
import { AXES } from "./curve_panel.js";

const BUTTONS = [
  ["+", "Zoom in", "+"], ["-", "Zoom out", "−"], ["ArrowLeft", "Earlier", "←"], ["ArrowRight", "Later", "→"],
  ["0", "Show all", "All"],
];

/** The bar of a board; `draw()` after a change of it. */
export function zoomBar(board) {
  const axes = Object.entries(board.axes ?? AXES);
  const options = axes.map(([key, { label }]) => h("option", { value: key }, label));
  const choice = h("select", { onchange: () => board.setAxis(choice.value) }, options);
  choice.value = board.axis;
  const buttons = BUTTONS.map(([key, label, sign]) => h("button", {
    type: "button", "aria-label": label, title: label, onclick: () => press(board, key),
  }, sign));
  const said = h("span", { class: "muted small", role: "status" });
  const group = h("div", { class: "row zoom-buttons", role: "group", "aria-label": "Zoom" }, buttons);
  const element = h("div", { class: "row zoom-bar" }, axes.length > 1 && h("label", {}, "x axis", choice), group, said);
  const draw = () => { const now = sentence(board); if (said.textContent !== now) said.textContent = now; };
  draw();
  return { element, draw };
}

function press(board, key) {
  const [from, to] = board.range ?? board.extent ?? [null, null];
  if (from !== null || key === "0") board.setRange(...nextRange(key, from, to));
}

function sentence({ range, exact, axis, axes = AXES }) {
  const text = axes[axis].text, points = exact ? "every point" : "the lowest and the highest point of each pixel";
  if (!range) return exact ? "Drag over a chart to zoom." : `Drag over a chart to zoom in: now it shows ${points}.`;
  return `${text(Math.max(0, range[0]))} to ${text(range[1])}, ${points}. A double click shows all.`;
}
