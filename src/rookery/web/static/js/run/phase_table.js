// The phases of a run with a curriculum: which there are, when each began, which one is on.

import { h } from "../dom.js";
import { count } from "../format.js";

/** A card with the phases, or null for a run without any. */
export function phaseTable({ phases = [], notes = [], progress = {} }) {
  if (!phases.length) return null;
  const rows = phases.map((phase, index) => phaseRow(phase, index + 1, notes, progress.phase ?? 1));
  const heads = ["phase", "from step", "ends after", "options"].map((text) => h("th", { scope: "col" }, text));
  return h("section", { class: "card" }, h("h2", {}, "Phases"),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Phases" },
    h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows))));
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
