// One chart of metrics on a board: built while it is near the screen, drawn at most once a frame.

import { chart } from "../chart.js";
import { h, put } from "../dom.js";
import { duration, number, short } from "../format.js";

/**
 * A panel.
 *   title    its heading, which is text
 *   names    metrics it shows
 *   series   how each is drawn, as for `chart`
 *   shape    turns the columns [x, y, ...] into what is drawn, if that is something else
 *   yText    a value as text
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
    return chart(this.place, { label, series, scales, height, onRange, yText, ...axis });
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

/** What x may be. */
export const AXES = {
  steps: { label: "steps", text: short },
  time: { label: "time", text: duration },
  episodes: { label: "episodes", text: short },
};
