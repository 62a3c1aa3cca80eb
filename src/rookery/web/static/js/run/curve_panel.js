// One chart of metrics on a board: built while it is near the screen, drawn at most once a frame.

import { chart, nextRange } from "../chart.js";
import { h, put } from "../dom.js";
import { AXES, number, short } from "../format.js";

/**
 * A panel.
 *   title    its heading, which is text
 *   names    metrics it shows
 *   series   how each is drawn, as for `chart`
 *   shape    turns the columns [x, y, ...] into what is drawn, if that is something else
 *   yText    a value as text
 * `onBuild`, if it is set, is called with each plot that it makes: a panel far from the screen has none.
 */
export class CurvePanel {
  constructor({
    title, names, series = null, shape = null, scales = {}, height = 210, yText = number, yAxis = short,
  }) {
    Object.assign(this, { title, names, shape, scales, height, yText, yAxis });
    this.series = series ?? names.map((name) => ({ label: name }));
    this.columns = this.chart = null;
    this.visible = this.drawing = this.moving = false;
    this.stale = true;
    this.place = h("div", { class: "chart-place" });
    this.place.style.minHeight = `${height}px`;
    this.element = h("figure", { class: "panel card" }, h("figcaption", {}, title), this.place);
  }

  appear() {
    this.visible = true;
    if (this.columns) this.draw();
    if (this.stale) this.board.want(this);
  }

  hide() {
    this.visible = false;
    this.unbuild();
  }

  newAxis() {
    this.columns = null;
    this.unbuild();
  }

  unbuild() {
    this.chart?.destroy();
    this.chart = null;
    delete this.place.dataset.points;
    delete this.place.dataset.last;
  }

  /** Show another range of what is there. */
  move() {
    if (!this.chart || this.moving) return;
    this.moving = true;
    requestAnimationFrame(() => {
      this.moving = false;
      this.chart?.range(...(this.board.range ?? [null, null]));
    });
  }

  draw() {
    if (!this.visible || this.drawing) return;
    if (!this.chart) return this.drawNow();  // nobody waits for the first one longer than needed
    this.drawing = true;
    requestAnimationFrame(() => { this.drawing = false; this.drawNow(); });
  }

  drawNow() {
    if (!this.visible || !this.columns) return;
    if (this.columns[0].length === 0 && !this.board.range) return this.say("No values yet.");
    this.chart ??= this.build();
    this.chart.set(this.shape ? this.shape(this.columns) : this.columns, this.board.range);
    this.place.dataset.points = this.columns[0].length;
    this.place.dataset.last = this.columns[0].at(-1) ?? "";
  }

  build() {
    put(this.place);
    const board = this.board, onRange = (from, to) => board.setRange(from, to), x = (board.axes ?? AXES)[board.axis];
    const label = `${this.title} over ${x.label}. Keys: plus and minus zoom, arrows move, 0 shows all.`;
    const { series, scales, height, yText, yAxis } = this, axis = { xLabel: x.label, xText: x.text, yTicks: yAxis };
    const made = chart(this.place, { label, series, scales, height, onRange, yText, ...axis });
    this.onBuild?.(made.plot);
    return made;
  }

  fail(error) {
    if (error.name !== "AbortError" && !this.columns) this.say(error.message);
  }

  say(sentence) {
    this.unbuild();
    put(this.place, h("p", { class: "muted" }, sentence));
  }

  /** What an event has of the panel's metrics. */
  valuesOf(event) { return this.names.map((name) => (typeof event[name] === "number" ? event[name] : null)); }
}

// The bar above the charts: the x axis, and zooming without a mouse.

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
