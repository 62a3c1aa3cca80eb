// All charts of a run's metrics: one x axis and one range for all, data by a few requests, new events as they come.

import { get } from "../api.js";
import { append, cut, pick } from "./columns.js";

const POINTS = 1500;  // of a curve over the width of a screen
const MOST_ROWS = 3 * POINTS;  // of a curve that has grown, before a shorter one is requested from the server
const REMEMBERED = 500;  // events, for answers that were read before them
const NAMES_AT_ONCE = 40;
const TOGETHER_MS = 20, SETTLED_MS = 120;
const AGAIN_MS = 500, SAMPLED_MS = 1000;

/** A board over /api/runs/P/N. `onChange(board)` is called after a change of range, axis or resolution. */
export class CurveBoard {
  constructor(path, { axis = "steps", range = null, onChange = () => {} } = {}) {
    Object.assign(this, { path, axis, range, onChange, exact: true, extent: null, loaded: null, early: null });
    this.panels = new Set();
    this.recent = [];
    this.wanted = new Set();
    this.turn = 0;
    this.timer = this.again = 0;
    this.seen = new IntersectionObserver((entries) => entries.forEach(watched), { rootMargin: "250px" });
  }

  /** Show a panel (see curve_panel.js); it is loaded when it comes near the screen. */
  add(panel) {
    panel.board = this;
    panel.element.panel = panel;
    this.panels.add(panel);
    if (this.early) panel.appear();  // its curves are on their way
    this.seen.observe(panel.element);
  }

  /** Show panels in an element. */
  show(place, panels) {
    for (const panel of panels) {
      place.append(panel.element);
      this.add(panel);
    }
  }

  remove(panel) {
    this.seen.unobserve(panel.element);
    this.panels.delete(panel);
    this.wanted.delete(panel);
    panel.hide();
  }

  clear() { for (const panel of [...this.panels]) this.remove(panel); }

  /** Zoom or move: drawn at once from what is there, and exactly when the server has answered. */
  setRange(from, to) {
    this.range = from === null ? null : within(from, to, this.extent);
    for (const panel of this.panels) panel.move(this.range);
    if (!this.covers()) this.reload(SETTLED_MS);
    this.onChange(this);
  }

  /** Whether what is there is as fine as it should be, and reaches over the range: after a small move. */
  covers() {
    if (!this.range || !this.loaded) return false;
    const [from, to] = this.range, { low, high, span } = this.loaded, [first, last] = this.extent ?? this.range;
    return Math.abs(to - from - span) < 1e-6 * span && (from >= low || low <= first) && (to <= high || high >= last);
  }

  setAxis(axis) {
    this.axis = axis;
    this.range = this.extent = null;
    for (const panel of this.panels) panel.newAxis();
    this.reload(0);
    this.onChange(this);
  }

  /** A new event of the run. What has been zoomed stays as it is. */
  push(event) {
    this.recent.push(event);
    if (this.recent.length > REMEMBERED) this.recent.shift();
    if (this.axis !== "steps") return this.reloadSoon(AGAIN_MS);  // the server knows when the run was not training
    this.extend(event.step);
    if (this.range === null) for (const panel of this.panels) this.grow(panel, event);
  }

  /** Ask again in a while, unless another request was made in the meantime. */
  reloadSoon(wait) {
    this.again ||= setTimeout(() => { this.again = 0; this.refresh(0); }, wait);
  }

  /** The run continues from an earlier step: what came after it is not part of its curves. */
  reset(step) {
    this.recent = this.recent.filter((event) => event.step <= step);
    const cutting = this.axis === "steps" ? [...this.panels].filter((panel) => panel.columns) : [];
    for (const panel of cutting) panel.columns = cut(panel.columns, step);
    this.extent = null;
    this.reload(0);
  }

  /** Ask for the data of every panel, of another range or axis: answers that are on their way are of no use. */
  reload(wait) {
    this.turn += 1;
    this.loaded = null;
    this.refresh(wait);
  }

  refresh(wait) {
    for (const panel of this.panels) panel.stale = true;
    for (const panel of this.panels) if (panel.visible) this.want(panel, wait);
  }

  /** Load a panel, together with others. If its curves were requested before, nothing is gained by waiting. */
  want(panel, wait = this.early ? 0 : TOGETHER_MS) {
    this.wanted.add(panel);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), wait);
  }

  async load() {
    const panels = [...this.wanted], turn = this.turn;
    this.wanted.clear();
    const names = [...new Set(panels.flatMap((panel) => panel.names))];
    for (let start = 0; start < names.length; start += NAMES_AT_ONCE) {
      const part = new Set(names.slice(start, start + NAMES_AT_ONCE));
      await this.fetch(panels.filter((panel) => part.has(panel.names[0])), turn);
    }
  }

  async fetch(panels, turn) {
    const names = [...new Set(panels.flatMap((panel) => panel.names))];
    try {
      const asked = this.asked(), answer = await this.answerFor(names, asked);
      if (turn !== this.turn) return;
      const { from: low, to: high } = asked;
      if (this.range && low !== undefined) this.loaded = { low, high, span: (high - low) / 2 };
      this.exact = answer.exact;
      if (answer.sampled) this.reloadSoon(SAMPLED_MS);  // the server is still reading a very long run
      if (answer.range) { this.extend(answer.range[0]); this.extend(answer.range[1]); }
      await this.fillAll(panels, answer, turn);
    } catch (error) {
      if (turn === this.turn) for (const panel of panels) panel.fail(error);
    }
    this.onChange(this);
  }

  /** Ask for curves before it is known which panels there are: the answer is used once. */
  prefetch(names) {
    const { axis } = this;
    if (this.range === null) this.early = { names: new Set(names), axis, answer: this.ask(names, this.asked()) };
    this.early?.answer.catch(() => {});  // the error is reported where the answer is used
  }

  answerFor(names, asked) {
    const early = this.early;
    this.early = null;
    const fits = early && !this.range && early.axis === this.axis && names.every((name) => early.names.has(name));
    return fits ? early.answer : this.ask(names, asked);
  }

  ask(names, asked) { return get(`${this.path}/metrics/data`, { names: names.join(","), x: this.axis, ...asked }); }

  /** More than is seen, so that a small move has something to show. */
  asked() {
    if (!this.range) return { points: POINTS };
    const [from, to] = this.range, margin = (to - from) / 2;
    return { from: from - margin, to: to + margin, points: 2 * POINTS };
  }

  /** New charts are drawn one by one, so that the first is seen before the last is made. */
  async fillAll(panels, answer, turn) {
    for (const [index, panel] of panels.entries()) {
      if (index && !panel.chart) await painted();
      if (turn !== this.turn) return;
      this.fill(panel, answer);
    }
  }

  fill(panel, answer) {
    panel.columns = pick(answer, panel.names);
    panel.stale = false;
    const recent = this.range === null && this.axis === "steps" ? this.recent : [];
    for (const event of recent) append(panel.columns, event.step, panel.valuesOf(event));
    panel.draw();
  }

  grow(panel, event) {
    if (!panel.columns || !append(panel.columns, event.step, panel.valuesOf(event))) return;
    panel.draw();
    if (panel.columns[0].length > MOST_ROWS && panel.visible && !this.wanted.has(panel)) this.want(panel);
  }

  extend(x) {
    if (x == null || !Number.isFinite(x)) return;
    this.extent = this.extent ? [Math.min(this.extent[0], x), Math.max(this.extent[1], x)] : [x, x];
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.again);
    this.turn += 1;
    this.seen.disconnect();
    this.clear();
  }
}

/** A range that stays within what there is; null if that is all of it. */
function within(from, to, extent) {
  if (!extent) return [from, to];
  const [first, last] = extent, span = to - from;
  if (span >= last - first) return null;
  const start = Math.min(Math.max(from, first), last - span);
  return [start, start + span];
}

const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));

function watched(entry) {
  const panel = entry.target.panel;
  if (entry.isIntersecting === panel.visible) return;
  if (entry.isIntersecting) panel.appear();
  else panel.hide();
}
