// Boxes to tick in the rows of a table: one by one, a range with Shift, or all that are shown.

import { h } from "./dom.js";

/** `picked` is a set of keys, changed in place; `changed()` is called after each change. */
export function tablePicks({ picked, label, changed, key, shown, redraw }) {
  const all = h("input", { type: "checkbox", "aria-label": "Select all rows shown", onchange: pickAll });
  let lastKey = null;

  function pickAll() {
    for (const row of shown()) mark(key(row), all.checked);
    finish();
  }

  function pick(event) {
    const mine = event.target.dataset.key, rows = shown().map(key), to = rows.indexOf(mine);
    const from = rows.indexOf(lastKey);
    const range = event.shiftKey && from >= 0 ? rows.slice(Math.min(from, to), Math.max(from, to) + 1) : [mine];
    for (const name of range) mark(name, event.target.checked);
    lastKey = mine;
    finish();
  }

  const mark = (name, on) => (on ? picked.add(name) : picked.delete(name));

  function finish() {
    redraw();
    refresh();
    changed();
  }

  function refresh() {
    const rows = shown(), count = rows.reduce((sum, row) => sum + picked.has(key(row)), 0);
    all.checked = rows.length > 0 && count === rows.length;
    all.indeterminate = count > 0 && count < rows.length;
  }

  return {
    refresh,
    head: () => h("th", { class: "pick", scope: "col" }, h("label", {}, all)),
    cell: () => h("td", { class: "pick" }, h("label", {}, h("input", { type: "checkbox", onclick: pick }))),
    update(tr, row) {
      const input = tr.firstChild.querySelector("input"), name = key(row), on = picked.has(name);
      if (input.dataset.key !== name) {
        input.dataset.key = name;
        input.setAttribute("aria-label", `Select ${label(row)}`);
      }
      input.checked = on;
      tr.classList.toggle("picked", on);
    },
  };
}
