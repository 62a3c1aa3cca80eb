// The first look at a run: is it learning, where does its time go, what was said, what to type next.

import { isShown } from "../address_state.js";
import { part } from "../api.js";
import { card, command, h, headed, link, put, scrolled } from "../dom.js";
import { count, when } from "../format.js";
import { LENGTH_METRICS, lengthPanel, RETURN_METRICS, returnPanel, TIME_METRICS, timePanel } from "./time_panel.js";

/** What its charts show, as far as the run has it. */
export const OVERVIEW_METRICS = [...RETURN_METRICS, ...LENGTH_METRICS, ...TIME_METRICS];

/** Fill the tab; returns a function that ends it. */
export function overviewTab(panel, { model, board, known, bar, session }) {
  const charts = h("div", { class: "grid wide-first" }), notes = h("section", { class: "card" });
  const more = h("div", { class: "stack" });
  panel.append(bar.element, charts, h("div", { class: "grid tops" }, notes, more));
  const panels = [returnPanel(known, 280)];
  if (known.has("episode/length")) panels.push(lengthPanel(known, 200));
  if (known.has("time/env")) panels.push(timePanel(known, 200));
  board.show(charts, panels);
  const back = backInTime(panels[0], { model, board, session });
  const draw = () => { put(notes, ...noteList(model.details)); put(more, ...rest(model.details)); back.draw(); };
  draw();
  model.on("details", draw);
  return () => { model.off("details", draw); back.end(); board.clear(); };
}

/** The slider below the returns, once there is a checkpoint, and the forks. Loaded late: curves come first. */
function backInTime(returns, { model, board, session }) {
  const parts = [];
  let over = false, asked = false;

  async function load() {
    const [{ rewindPanel }, { familyPanel }] = await Promise.all(
      [import("./rewind_panel.js"), import("./family_panel.js")]);
    if (over) return;
    const forks = familyPanel(model), rewind = rewindPanel(model, board, returns, session, forks.draw);
    returns.element.after(rewind.element, forks.element);
    parts.push(rewind, forks);
    rewind.draw();
  }

  return {
    draw() {
      parts[0]?.draw();
      if (asked || !isShown("/diff") || !model.details.checkpoints?.some((one) => one.kept)) return;
      asked = true;
      load();
    },
    end() { over = true; for (const one of parts) one.end(); },
  };
}

function rest(details) {
  return [phaseTable(details), leagueLink(details), commands(details.commands ?? [])].filter(Boolean);
}

function leagueLink({ league, row }) {
  return league && h("section", { class: "card needs-server" }, h("h2", {}, "League"),
    link(`/leagues/${row.id.split("/").map(part).join("/")}`, {}, "Ratings over time, tournaments and matches"));
}

/** What to type next, each with a button that copies it. */
function commands(lines) {
  if (!lines.length) return null;
  const rows = lines.map(({ what, command: line }) =>
    h("div", {}, h("span", { class: "muted small" }, what), command(line)));
  return card("What to type next", rows);
}

const SHOWN = 30;  // notes, until somebody wants all

/** Warnings first, then notes, each the newest first. */
function noteList({ notes = [], warnings = [] }) {
  const trouble = new Set(warnings.map(keyOf)), plain = notes.filter((note) => !trouble.has(keyOf(note))).toReversed();
  const none = !plain.length && !warnings.length && h("p", { class: "muted" }, "Nothing was noted.");
  return [h("h2", {}, "Notes and warnings"), none, some(warnings.toReversed(), "note warning"), some(plain, "note")];
}

const keyOf = (note) => `${note.step} ${note.text}`;

function some(notes, cls) {
  const lines = notes.map((note) => line(note, cls)), more = lines.length - SHOWN;
  return more <= 0 ? lines
    : [lines.slice(0, SHOWN), h("details", {}, h("summary", {}, `${count(more)} older ones`), lines.slice(SHOWN))];
}

function line(note, cls) {
  const at = note.step != null
    && h("span", { class: "muted small", title: when(note.time) }, ` at step ${count(note.step)}`);
  return h("div", { class: cls }, h("span", { class: "note-text" }, note.text), at);
}

// The phases of a run with a curriculum: which there are, when each began, which one is on.

/** A card with the phases, or null for a run without any. */
function phaseTable({ phases = [], notes = [], progress = {} }) {
  if (!phases.length) return null;
  const rows = phases.map((phase, index) => phaseRow(phase, index + 1, notes, progress.phase ?? 1));
  return card("Phases", scrolled("Phases", headed(["phase", "from step", "ends after", "options"], rows)));
}

function phaseRow(phase, number, notes, current) {
  const began = notes.find((note) => note.phase === number)?.step ?? (number === 1 ? 0 : null);
  return h("tr", { class: number === current && "current", "aria-current": number === current && "step" },
    h("th", { scope: "row" }, phase.name ?? `phase ${number}`,
      number === current && h("span", { class: "tag" }, "now")),
    h("td", { class: "number" }, began === null ? "–" : count(began)), h("td", {}, endOf(phase)),
    h("td", { class: "mono" }, optionsOf(phase)));
}

function endOf({ episodes, steps, until }) {
  const ends = [episodes && `${count(episodes)} episodes`, steps && `${count(steps)} steps`,
    until && `until ${JSON.stringify(until)}`];
  return ends.filter(Boolean).join(", ") || "the end of the run";
}

function optionsOf({ options = {}, opponents = [] }) {
  const names = opponents.map((one) => one.name ?? one.opponent ?? JSON.stringify(one));
  return [...Object.entries(options).map(([name, value]) => `${name}=${value}`),
    ...names.map((name) => `against ${name}`)].join(", ");
}
