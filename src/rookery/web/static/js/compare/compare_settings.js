// In which settings the compared runs differ.

import { get } from "../api.js";
import { h, link } from "../dom.js";
import { runPath, split } from "../run_id.js";

const MOST = 8; // runs side by side; more do not fit on a page

/** A card with a table: a row for each setting that is not the same in all runs. */
export async function compareSettings(ids, signal) {
  const [first, ...others] = ids.slice(0, MOST);
  const found = await Promise.all(others.map((id) => get(runPath("/api/runs", first, "/diff"), { with: id }, signal)));
  const keys = [...new Set(found.flatMap((one) => Object.keys(one)))].sort();
  if (keys.length === 0) return h("section", { class: "card" }, h("h2", {}, "Settings"),
    h("p", { class: "muted" }, "These runs have the same settings."));
  const head = ids.slice(0, MOST).map((id) => h("th", { scope: "col" }, link(runPath("/runs", id), {}, split(id)[1])));
  const body = keys.map((key) => {
    const own = found.find((one) => key in one)[key][0];
    const values = [own, ...found.map((one) => (key in one ? one[key][1] : own))];
    return h("tr", {}, h("th", { scope: "row", class: "mono" }, key),
      values.map((value) => h("td", { class: "mono" }, text(value))));
  });
  const more = ids.length > MOST && h("p", { class: "muted small" }, `The first ${MOST} of ${ids.length} runs.`);
  return h("section", { class: "card" }, h("h2", {}, "Settings that differ"), more,
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Settings that differ" },
      h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Setting"), head)), h("tbody", {}, body))));
}

const text = (value) =>
  (value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));
