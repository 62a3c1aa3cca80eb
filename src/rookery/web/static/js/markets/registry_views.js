// Champion, challenger and previous version; the gate's decision; all versions.

import { get, runPath } from "../api.js";
import { card, h, headed, link, put, scrolled } from "../dom.js";
import { count, number, when } from "../format.js";
import { gain, ratio, share } from "./market_format.js";
import { marketLink, plainTable } from "./market_parts.js";

const ALIASES = ["champion", "challenger", "previous"];

/** A card for each alias. */
export function aliasCards(registry) {
  return h("div", { class: "aliases" }, ALIASES.map((alias) => {
    const named = registry.aliases[alias], version = registry.versions.find((one) => one.number === named);
    if (!version) return card(alias, h("p", { class: "muted" }, named ? `version ${named}` : "none"));
    const name = h("p", { class: "number" }, `Version ${named}`);
    return card(alias, name, aboutVersion(version), backtest(registry, version));
  }));
}

/** A link to the backtest of a version, if there is one. */
function backtest(registry, { number: own, accounts }) {
  return accounts.includes(`version-${own}`) && marketLink("backtest", registry, `?version=${own}`, "Its backtest");
}

function aboutVersion(version) {
  if (version.error) return h("p", { class: "bad" }, version.error);
  const { evaluation: found } = version;
  const facts = [
    version.world, version.study && `trial ${version.trial} of study ${version.study}`,
    version.run && `run ${version.run}`, version.step != null && `step ${count(version.step)}`,
    version.created && `added ${when(version.created)}`,
    typeof found?.verified === "number" && `verified ${number(found.verified)}`,
  ];
  return h("p", { class: "muted small" }, facts.filter(Boolean).join(" · "));
}

const FIGURES = [
  ["sharpe", "Sharpe ratio a year", ratio], ["total_return", "Total return", gain],
  ["max_drawdown", "Largest drawdown", share],
];
const SINGLE = [
  ["deflated_sharpe", "Deflated Sharpe ratio", number],
  ["overfitting_probability", "Probability of overfitting", share],
  ["loss_probability", "Probability of a loss against holding", share], ["trials", "Trials of the study", count],
  ["comparisons", "Earlier comparisons on these bars", count], ["seen_bars", "Bars it had seen before", count],
];

/** What the gate found about a version; `pick(number)` shows that of another one. */
export function gateView({ number: own, decision }, decided, pick) {
  const { figures, reasons, champion } = decision, word = decision.what === "promote" ? "promoted" : "refused";
  const select = h("select", { onchange: () => pick(Number(select.value)) },
    decided.map((one) => h("option", { value: one.number, selected: one.number === own }, `Version ${one.number}`)));
  return card("Comparison",
    h("div", { class: "row" }, h("label", {}, "Of", select),
      h("span", {}, champion == null ? "without a champion:" : `with version ${champion}, then champion:`),
      h("b", { class: word === "promoted" ? "good" : "bad" }, word),
      h("span", { class: "muted small" }, moment(decision.time))),
    conditions(reasons, Array.isArray(figures.conditions) ? figures.conditions : []),
    h("div", { class: "market-pair" }, compareTable(figures, own, champion), singles(figures)));
}

/** The sentences of the gate, each with whether its condition holds. */
function conditions(reasons, marks) {
  const mark = (holds) => holds !== undefined && h("b", { class: holds ? "good" : "bad" }, holds ? "holds" : "fails");
  const line = (reason, i) => h("li", {}, mark(marks[i]), h("span", {}, reason));
  return h("ul", { class: "conditions" }, reasons.map(line));
}

function compareTable(figures, own, champion) {
  const sides = [["candidate", `Version ${own}`], ["champion", `Champion ${champion ?? ""}`], ["hold", "Hold"]]
    .filter(([key]) => figures[key] && typeof figures[key] === "object");
  if (!sides.length) return null;
  const rows = FIGURES.map(([key, title, text]) => [title, ...sides.map(([side]) => text(figures[side][key]))]);
  return plainTable("Compared on the last segment", ["", ...sides.map(([, title]) => [title])], rows);
}

/** Figures that are one number each; of the gates of other worlds too. */
function singles(figures) {
  const isNumber = (key) => typeof figures[key] === "number", known = new Set(SINGLE.map(([key]) => key));
  const own = SINGLE.filter(([key]) => isNumber(key)).map(([key, title, text]) => [title, text(figures[key])]);
  const words = (key) => key[0].toUpperCase() + key.slice(1).replaceAll("_", " ");
  const other = Object.keys(figures).filter((key) => isNumber(key) && !known.has(key));
  const rows = [...own, ...other.map((key) => [words(key), number(figures[key])])];
  return rows.length > 0 && plainTable("Figures of the gate", ["", ["Value"]], rows);
}

/** All versions, the newest first. */
export function versionTable(registry) {
  const rows = registry.versions.map((version) => [
    h("span", {}, `Version ${version.number}`, tags(registry.aliases, version.number)),
    version.error ?? version.world ?? "", source(version), count(version.step), decisionText(version),
    when(version.created), backtest(registry, version) || "",
  ]);
  const heads = ["Version", "World", "From", ["Step"], "Decision", "Added", "Account"];
  return card("Versions", rows.length ? plainTable("Versions", heads, rows) : h("p", { class: "muted" }, "None yet."));
}

const tags = (aliases, own) => ALIASES.filter((alias) => aliases[alias] === own)
  .map((alias) => h("span", { class: "tag" }, alias));

/** Where a version is from: its run, if it is shown, as a link. */
function source({ study, trial, run, shown_run: id }) {
  const name = study ? `trial ${trial} of ${study}` : (run ?? "");
  return id ? link(runPath("/runs", id), {}, name) : name;
}

function decisionText({ decision }) {
  if (!decision) return "";
  return `${decision.what === "promote" ? "promoted" : "refused"} ${moment(decision.time)}`;
}

/** A time of the log, which is a text. */
export const moment = (text) => (typeof text === "string" ? `${text.slice(0, 16).replace("T", " ")} UTC` : "");

// The log of a registry: every change, the newest first, with its evidence.

const HEADS = ["Entry", "When", "Who", "What", "Version", "From", "To", "Evidence"];

/** The log in `box`; `refresh()` reads it again. Older entries are loaded by a button. */
export function auditLog(box, path, signal) {
  let entries = [], more = false, isWhole = true;

  function draw() {
    const older = more && h("button", { type: "button", onclick: loadOlder }, "Older entries");
    const rest = "The log is longer: older entries are in audit.jsonl.";
    const table = headed(HEADS, entries.map(line), { caption: "Audit log" });
    put(box, card("Audit log", scrolled("Audit log", table, "scroll audit-log"), older,
      !isWhole && !more && h("p", { class: "muted small" }, rest)));
  }

  async function load(before) {
    const found = await get(`${path}/audit`, { before }, signal);
    entries = before ? [...entries, ...found.entries] : found.entries;
    [more, isWhole] = [found.more, found.is_whole];
    draw();
  }

  const loadOlder = () => load(entries.at(-1)?.entry);
  return { refresh: () => load(null) };
}

function line({ entry, time, who, what, version, from, to, evidence: found }) {
  const cells = [moment(time), who, what, version, from, to].map((value) => h("td", {}, text(value)));
  return h("tr", {}, h("th", { scope: "row" }, text(entry)), cells, h("td", { class: "evidence" }, evidence(found)));
}

function text(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** The evidence in a line, and all of it on demand. */
function evidence(found) {
  if (found === null || typeof found !== "object") return text(found);
  const { reasons, why, candidate, run, gate } = found;
  const first = reasons?.[0] ?? why ?? candidate ?? run ?? gate ?? Object.keys(found).join(", ");
  return h("details", {}, h("summary", {}, text(first)), h("pre", {}, JSON.stringify(found, null, 2)));
}
