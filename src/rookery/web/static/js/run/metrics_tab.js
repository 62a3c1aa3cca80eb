// All metrics of a run, grouped by the word before the slash, with a search: runs may have hundreds.

import { CurvePanel } from "./curve_panel.js";
import { h, headed, put, scrolled } from "../dom.js";
import { count, duration, number } from "../format.js";
import { lengthPanel, returnPanel, timePanel } from "./time_panel.js";

const ORDER = ["episode", "eval", "loss", "info", "time", "system"];
const TITLES = { episode: "Episodes", eval: "Evaluations", loss: "Losses", info: "Infos of the env",
  time: "Shares of the time", system: "Machine", "": "Others" };
const IN_BAND = new Set(["eval/return_low", "eval/return_high"]);

/** Fill the tab; returns a function that ends it. */
export function metricsTab(panel, { model, board, known, bar, address }) {
  const search = h("input",
    { type: "search", value: address.state.q, placeholder: "loss, memory, eval/return", size: 28,
      oninput: () => draw() });
  const found = h("span", { class: "muted small", role: "status" }), place = h("div");
  panel.append(bar.element, h("div", { class: "row metric-search" }, h("label", {}, "Search metrics", search), found),
    place);

  function draw() {
    board.clear();
    address.change({ q: search.value });
    const names = matching([...known], search.value);
    found.textContent = `${names.length} of ${known.size} metrics`;
    put(place, groups(names).map(([group, members]) => section(group, members, { board, model, known })));
  }

  draw();
  return () => board.clear();
}

/** Names that contain every word of the search, in any order. */
function matching(names, search) {
  const words = search.toLowerCase().split(/[\s,]+/).filter(Boolean);
  return names.filter((name) => words.every((word) => name.toLowerCase().includes(word)));
}

/** [[prefix, names], ...] in the order people look for them; metrics without a prefix come last. */
function groups(names) {
  const by = new Map();
  for (const name of names) {
    const prefix = name.includes("/") ? name.slice(0, name.indexOf("/")) : "";
    by.set(prefix, [...(by.get(prefix) ?? []), name]);
  }
  const rank = (prefix) => (prefix === "" ? 99 : ORDER.includes(prefix) ? ORDER.indexOf(prefix) : 50);
  return [...by].sort(([a], [b]) => rank(a) - rank(b) || a.localeCompare(b));
}

function section(group, names, { board, model, known }) {
  const grid = h("div", { class: "grid" }), title = TITLES[group] ?? group;
  board.show(grid, panelsOf(group, names, known));
  const table = group === "eval" && model.details.evaluations?.length ? evaluationTable(model.details.evaluations)
    : null;
  return h("details", { class: "metric-group", open: true },
    h("summary", {}, h("h2", {}, title), h("span", { class: "muted small" }, String(names.length))), grid, table);
}

/** One for each metric; the shares of the time together, unless one of them was searched for. */
function panelsOf(group, names, known) {
  if (group === "time" && names.length > 2) return [timePanel(known, 180)];
  return names.filter((name) => !IN_BAND.has(name)).map((name) => panelOf(name, known));
}

function panelOf(name, known) {
  if (name === "episode/return") return returnPanel(known, 180);
  if (name === "episode/length") return lengthPanel(known, 180);
  return new CurvePanel({ title: name, names: [name], height: 180 });
}

// Evaluations as a table, the last first.

const MOST = 200;
const HEADS = ["step", "return", "95 % interval", "length", "episodes", "took"];

function evaluationTable(evaluations) {
  const rows = evaluations.toReversed().slice(0, MOST).map(evaluationRow);
  return scrolled("Evaluations", headed([...HEADS.map((text) => [text, "number"]), null], rows), "scroll card");
}

function evaluationRow(one) {
  const figures = [
    count(one.step), number(one["eval/return"]), interval(one), number(one["eval/length"]), count(one["eval/episodes"]),
    duration(one["eval/seconds"]),
  ];
  return h("tr", {}, figures.map((text) => h("td", { class: "number" }, text)),
    h("td", {}, one["eval/best"] ? "best so far" : ""));
}

const interval = (one) =>
  (one["eval/return_low"] == null ? "–" : `${number(one["eval/return_low"])} to ${number(one["eval/return_high"])}`);
