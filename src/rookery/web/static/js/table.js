// A table to sort by its columns, with rows to select, which may change while somebody looks at it.

import { h, put } from "./dom.js";
import { rowWindow } from "./table_window.js";

const STILL_MS = 1500; // the order waits this long after a hand or a key was in the table

/**
 * A table in `container`.
 *   caption    what it shows, for people who do not see it
 *   columns    [{key, title, hint, width (rem), grow, number, value(row), cell(row), stamp(row), sortable, descending,
 *              header}]; value: what is sorted, the row's entry `key` without it; cell: what is shown, a text or an
 *              element; stamp: tells whether the cell has changed, else the value does; descending: the first click
 *              gives the largest first; header: the cell names its row; grow: this column takes the room that is left
 *   shown      the keys of the columns to show; all without it. Rows can be in the order of a column that is not shown
 *   key(row)   by what a row is known
 *   sort       {key, descending}; onSort(sort) after a click on a title
 *   picks      {picked: Set of keys, label(row), changed()}: a box to tick in every row
 *   rowHeight  in pixels
 *   none       a text or an element while there are no rows
 * Returns {set(rows), update(rows), showColumns(keys), refresh(), element, destroy()}. `set` shows rows at once;
 * `refresh` looks at the cells of the rows in sight again;
 * `update` is for news: while somebody points at the table rows change in place, and are sorted a moment later.
 */
export function dataTable(container, {
  caption, columns: all, shown = null, key, sort, onSort, picks = null, rowHeight = 40, none = "Nothing here.",
}) {
  const head = h("thead"), body = h("tbody"), widths = h("colgroup"), empty = h("div", { class: "none" }, none);
  const table = h("table", {}, h("caption", { class: "visually-hidden" }, caption), widths, head, body);
  const box = h("div", { class: "data-table", tabindex: 0, role: "region", "aria-label": caption }, table, empty);
  box.style.setProperty("--row-height", `${rowHeight}px`);
  container.append(box);
  const rowPicks = picks && tablePicks({ ...picks, key, shown: () => view.rows, redraw: () => view.draw() });
  const view = rowWindow(box, body, { height: rowHeight, key, make: makeRow, update: updateRow });
  const stamps = new WeakMap();
  let columns = chosen(shown), latest = [], touched = -Infinity, timer = 0;

  function chosen(keys) { return keys ? all.filter((column) => keys.includes(column.key)) : all; }

  function makeRow() {
    const cells = columns.map((column) =>
      h(column.header ? "th" : "td", { class: column.number && "number", scope: column.header && "row" }));
    const tr = h("tr", {}, rowPicks?.cell(), cells);
    stamps.set(tr, columns.map(() => makeRow)); // no stamp of a value is this function
    return tr;
  }

  function updateRow(tr, row) {
    rowPicks?.update(tr, row);
    const known = stamps.get(tr), first = rowPicks ? 1 : 0;
    columns.forEach((column, i) => {
      const stamp = column.stamp ? column.stamp(row) : valueIn(column, row);
      if (Object.is(known[i], stamp)) return;
      known[i] = stamp;
      show(tr.children[first + i], column.cell ? column.cell(row) : valueIn(column, row));
    });
  }

  function drawHead() {
    const cols = columns.map(({ width = 7, grow }) => h("col", { style: grow ? {} : { width: `${width}rem` } }));
    put(widths, rowPicks && h("col", { style: { width: "2.6rem" } }), cols);
    const least = columns.reduce((sum, { width = 7 }) => sum + width, rowPicks ? 2.6 : 0);
    table.style.minWidth = `${least}rem`;
    view.span(columns.length + (rowPicks ? 1 : 0));
    put(head, h("tr", { "aria-rowindex": 1 }, rowPicks?.head(), columns.map(title)));
  }

  function title(column) {
    const isSorted = sort?.key === column.key, direction = sort?.descending ? "descending" : "ascending";
    const content = column.sortable === false
      ? h("span", { class: "plain", title: column.hint }, column.title)
      : h("button", { type: "button", class: "sort", title: column.hint, onclick: () => sortBy(column) }, column.title);
    return h("th", { scope: "col", class: column.number && "number", "aria-sort": isSorted && direction,
      dataset: { key: column.key } }, content);
  }

  function sortBy(column) {
    const again = sort?.key === column.key;
    sort = { key: column.key, descending: again ? !sort.descending : Boolean(column.descending) };
    drawHead();
    head.querySelector(`th[data-key="${CSS.escape(column.key)}"] button`)?.focus();
    set(latest);
    box.scrollTop = 0;
    onSort?.(sort);
  }

  /** Show rows, in order, at once. */
  function set(rows) {
    clearTimeout(timer);
    timer = 0;
    latest = rows;
    const column = all.find((one) => one.key === sort?.key);
    showAll(column ? ordered(rows, column, sort.descending) : rows);
  }

  /** News: values at once, the order only while nobody points at the table. */
  function update(rows) {
    latest = rows;
    const quiet = performance.now() - touched;
    if (quiet >= STILL_MS) return set(rows);
    const fresh = new Map(rows.map((row) => [key(row), row]));
    const kept = view.rows.map((row) => fresh.get(key(row))).filter(Boolean), known = new Set(kept.map(key));
    showAll([...kept, ...rows.filter((row) => !known.has(key(row)))]);
    timer ||= setTimeout(() => { timer = 0; update(latest); }, STILL_MS - quiet + 10);
  }

  function showAll(rows) {
    table.setAttribute("aria-rowcount", rows.length + 1);
    empty.hidden = rows.length > 0;
    view.set(rows);
    rowPicks?.refresh();
  }

  function touch() { touched = performance.now(); }
  for (const kind of ["pointermove", "pointerdown", "keydown", "scroll"]) box.addEventListener(kind, touch,
    { passive: true });
  box.addEventListener("keydown", (event) => moveFocus(event, view));
  drawHead();
  showAll([]);
  return {
    set, update, element: box,
    showColumns(keys) { columns = chosen(keys); view.clear(); drawHead(); set(latest); },
    refresh() { view.draw(); rowPicks?.refresh(); },
    destroy() { clearTimeout(timer); view.destroy(); box.remove(); },
  };
}

function show(cell, content) {
  put(cell, content);
  if (content instanceof Node) cell.removeAttribute("title");
  else cell.title = content ?? "";
}

/** Arrow keys lead from a link or box to the same one of the row above or below. */
function moveFocus(event, view) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key], cell = event.target.closest?.("tbody td, tbody th");
  if (!by || !cell || event.altKey || event.ctrlKey || event.metaKey
    || event.target.matches("select, input:not([type=checkbox])")) return;
  const index = view.indexOf(cell.parentElement) + by;
  if (index < 0 || index >= view.rows.length) return;
  event.preventDefault();
  view.reveal(index).children[cell.cellIndex].querySelector("a, button, input")?.focus({ preventScroll: true });
}

// The order of a table's rows.

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
const isKnown = (value) => value !== null && value !== undefined && value !== "" && !Number.isNaN(value);

/** Rows in the order of a column. What is unknown comes last in both directions; equal rows keep their order. */
function ordered(rows, column, descending) {
  const known = [], unknown = [];
  for (const row of rows) {
    const value = valueIn(column, row);
    (isKnown(value) ? known : unknown).push([value, row]);
  }
  const sign = descending ? -1 : 1;
  known.sort(([a], [b]) => sign * compare(a, b));
  return [...known, ...unknown].map(([, row]) => row);
}

/** What a column says of a row: by its function, or the row's own entry of that name. */
const valueIn = (column, row) => (column.value ? column.value(row) : row[column.key]);

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return collator.compare(String(a), String(b));
}

// Boxes to tick in the rows of a table: one by one, a range with Shift, or all that are shown.

/** `picked` is a set of keys, changed in place; `changed()` is called after each change. */
function tablePicks({ picked, label, changed, key, shown, redraw }) {
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
