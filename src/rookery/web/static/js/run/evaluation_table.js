// Evaluations as a table, the last first.

import { h } from "../dom.js";
import { count, duration, number } from "../format.js";

const MOST = 200;
const HEADS = ["step", "return", "95 % interval", "length", "episodes", "took"];

export function evaluationTable(evaluations) {
  const heads = HEADS.map((text) => h("th", { scope: "col", class: "number" }, text));
  const rows = evaluations.toReversed().slice(0, MOST).map(evaluationRow);
  return h("div", { class: "scroll card", tabindex: 0, role: "region", "aria-label": "Evaluations" },
    h("table", {}, h("thead", {}, h("tr", {}, heads, h("td"))), h("tbody", {}, rows)));
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
