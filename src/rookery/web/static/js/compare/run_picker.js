// A table to choose the runs that are compared.

import { h } from "../dom.js";
import { number } from "../format.js";
import { filtered, NO_FILTERS } from "../runs/run_filters.js";
import { dataTable } from "../table.js";

const COLUMNS = [
  { key: "name", title: "Run", header: true, grow: true, width: 10 }, { key: "world", title: "World", width: 8 },
  { key: "learner", title: "Learner", width: 6 },
  { key: "return", title: "Return", width: 6, number: true, descending: true, cell: (row) => number(row.return) },
];

/**
 * `picked` is the set of chosen ids, changed in place; `changed()` is called after a choice.
 * Returns {element, set(rows), refresh(), destroy()}.
 */
export function runPicker(picked, changed) {
  const search = h("input", { type: "search", placeholder: "Search runs", "aria-label": "Search runs", oninput: draw });
  const element = h("div", { class: "picker" }, h("div", { class: "row" }, search));
  const table = dataTable(element, {
    caption: "Runs to compare", columns: COLUMNS, key: (row) => row.id, sort: { key: "return", descending: true },
    rowHeight: 36,
    picks: { picked, label: (row) => row.name, changed }, none: "No run matches.",
  });
  let rows = [];

  function draw() { table.set(filtered(rows, { ...NO_FILTERS, q: search.value })); }

  return {
    element,
    set(all) { rows = all; table.update(filtered(rows, { ...NO_FILTERS, q: search.value })); },
    refresh: table.refresh, destroy: table.destroy,
  };
}
