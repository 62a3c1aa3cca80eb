// What is known of one run: its details from the server, kept up to date by the events of its stream.

import { get, part } from "../api.js";
import { follow } from "../stream.js";

const REFRESH_MS = 2000;  // at most so often are the details asked for again, after events
const PART_MS = 300;  // between two parts of a very long run, for the curves to come first
const IDLE_MS = 10000;  // and without events, for a run that stands still

export class RunModel {
  constructor(place, name, signal) {
    this.id = `${place}/${name}`;
    this.place = place;
    this.name = name;
    this.path = `/api/runs/${part(place)}/${part(name)}`;
    this.signal = signal;
    this.listeners = new Map();
    this.asked = this.timer = this.due = 0;
  }

  /** Call `tell` on one of: "details", "row", "event", "reset". */
  on(kind, tell) { this.listeners.set(kind, [...(this.listeners.get(kind) ?? []), tell]); }
  off(kind, tell) { this.listeners.set(kind, (this.listeners.get(kind) ?? []).filter((one) => one !== tell)); }
  tell(kind, value) { for (const tell of this.listeners.get(kind) ?? []) tell(value); }

  async load() {
    this.asked = Date.now();
    this.details = await get(this.path, {}, this.signal);
    this.row = this.details.row;
    return this.details;
  }

  /** Of a very long run the server reads a part at a time: ask until it has read all. */
  async loadAll() {
    while (this.details.complete === false && !this.signal.aborted) {
      await new Promise((done) => setTimeout(done, PART_MS));
      await this.load();
    }
  }

  /** {names: [{name, points}], exact}: the metrics of the run; of a very long one, those found so far. */
  metricNames() { return get(`${this.path}/metrics`, {}, this.signal); }

  /** Follow the run from where the details were read. Returns a function that ends it. */
  live() {
    const from = this.details.cursor ?? "";
    const end = follow(`${this.path}/stream${from === "" ? "" : `?last_event_id=${from}`}`, {
      ready: () => {},
      state: ({ state }) => this.changeState(state),
      event: (event) => this.apply(event),
      reset: (event) => { this.tell("reset", event); this.refreshSoon(0); },
      end: () => this.refreshSoon(0),
    }, () => this.refreshSoon(0));  // a run that is gone has no stream: its details say so
    const idle = setInterval(() => { if (isActive(this.row)) this.refreshSoon(0); }, IDLE_MS);
    return () => { end(); clearInterval(idle); clearTimeout(this.timer); };
  }

  changeState(state) {
    if (!state || state === this.row.state) return;
    this.row.state = state;
    this.tell("row");
    if (state !== "gone") this.refreshSoon(0);
  }

  apply(event) {
    const changed = changes(event, this.row);
    if (changed) { Object.assign(this.row, changed); this.tell("row"); }
    this.tell("event", event);
    this.refreshSoon(event.kind === "progress" ? REFRESH_MS : 300);
  }

  /** Ask for the details again, not more often than every two seconds. */
  refreshSoon(wait) {
    const due = Math.max(Date.now() + wait, this.asked + REFRESH_MS);
    if (this.timer && this.due <= due) return;
    clearTimeout(this.timer);
    this.due = due;
    this.timer = setTimeout(() => this.refresh(), due - Date.now());
  }

  async refresh() {
    this.timer = 0;
    try {
      await this.load();
      this.tell("details");
      this.tell("row");
    } catch (error) {
      if (error.status === 404) this.changeState("gone");  // else: the stream says that the server is away
    }
  }
}

/** What limits the speed of the run: one sentence, or null. */
export const bottleneck = ({ row, details }) => row.bottleneck ?? details.bottleneck ?? null;

export const isActive = (row) => row.state === "running" || row.state === "starting";

/** What an event changes in the row of its run; null if nothing. */
function changes(event, row) {
  if (event.kind === "progress") return known({
    steps: event.step, share: event.share, episodes: event.episodes, seconds: event.seconds,
    return: event["episode/return"],
    steps_per_second: event.steps_per_second, eta_seconds: event.eta_seconds, num_envs: event.num_envs,
    updated: event.time,
  });
  if (event.kind === "evaluation") return known({
    last_eval: event["eval/return"], best_eval: event["eval/best"] ? event["eval/return"] : row.best_eval,
    updated: event.time,
  });
  return null;
}

const known = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
