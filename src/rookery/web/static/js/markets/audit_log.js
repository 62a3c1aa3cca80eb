// The log of a registry: every change, the newest first, with its evidence.

import { get } from "../api.js";
import { h, put } from "../dom.js";
import { card } from "./market_parts.js";
import { moment } from "./registry_views.js";

const HEADS = ["Entry", "When", "Who", "What", "Version", "From", "To", "Evidence"];

/** The log in `box`; `refresh()` reads it again. Older entries are loaded by a button. */
export function auditLog(box, path, signal) {
  let entries = [], more = false, isWhole = true;

  function draw() {
    const older = more && h("button", { type: "button", onclick: loadOlder }, "Older entries");
    const rest = "The log is longer: older entries are in audit.jsonl.";
    put(box, card("Audit log", table(entries), older, !isWhole && !more && h("p", { class: "muted small" }, rest)));
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

function table(entries) {
  const head = h("tr", {}, HEADS.map((title) => h("th", { scope: "col" }, title)));
  return h("div", { class: "scroll audit-log", tabindex: 0, role: "region", "aria-label": "Audit log" },
    h("table", {}, h("caption", { class: "visually-hidden" }, "Audit log"), h("thead", {}, head),
      h("tbody", {}, entries.map(line))));
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
