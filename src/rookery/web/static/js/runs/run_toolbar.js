// Above the table of runs: how many there are of each state, the search, the filters, and the choice of columns.

import { h, put } from "../dom.js";
import { count } from "../format.js";
import { menu, ticks } from "../menu.js";
import { stateOf } from "./run_columns.js";

const STATES = ["running", "stuck", "finished", "interrupted", "failed", "unreadable"];
const MENUS = [
  ["world", "World", (row) => [row.world]], ["learner", "Learner", (row) => [row.learner]],
  ["tag", "Tag", (row) => row.tags ?? []], ["place", "Folder", (row) => [row.place]],
];

/**
 * `filters` is read, `change(values)` is called with what was chosen; `columns` has {all, chosen(), choose(keys)}.
 * Returns {element, update(rows), search}: `update` counts again.
 */
export function runToolbar({ filters, change, columns }) {
  let rows = [], told = "";
  const states = h("div", { class: "states", role: "group", "aria-label": "States" });
  const search = h("input", {
    type: "search", value: filters.q, placeholder: "Search runs", "aria-label": "Search runs", "aria-keyshortcuts": "/",
    oninput: () => change({ q: search.value }),
  });
  const menus = MENUS.map(([name, title, values]) => filterMenu(name, title, values));
  const columnMenu = menu("Columns",
    () => ticks(columns.all.map(({ key, title }) => [key, title]), columns.chosen(), columns.choose));
  const hiddenBox = h("input",
    { type: "checkbox", checked: filters.hidden, onchange: () => change({ hidden: hiddenBox.checked }) });
  const hiddenText = h("span"), hidden = h("label", { class: "hidden-runs" }, hiddenBox, hiddenText);
  const together = menu("Filters", () => MENUS.map(([name, title, values]) => section(name, title, values)),
    { left: true });
  together.element.classList.add("narrow");
  for (const one of menus) one.element.classList.add("wide");
  const element = h("div", { class: "toolbar" }, states, h("div", { class: "row tools" },
    search, together.element, menus.map((one) => one.element), hidden, h("span", { class: "grow" }),
    columnMenu.element));

  const options = (values) => tally(rows, values).map(([value, number]) => [value, `${value} (${count(number)})`]);
  const boxes = (name, values) => ticks(options(values), filters[name], (chosen) => change({ [name]: chosen }));

  function section(name, title, values) {
    const found = boxes(name, values);
    return found.length > 0 && [h("h3", {}, title), found];
  }

  function filterMenu(name, title, values) {
    const made = menu(title, () => boxes(name, values), { left: true });
    made.update = () => {
      const several = tally(rows, values).length > (name === "tag" ? 0 : 1);
      made.element.hidden = !several && filters[name].length === 0;
      const label = filters[name].length ? `${title}: ${filters[name].join(", ")}` : title;
      if (made.button.textContent !== label) made.button.textContent = label;
    };
    return made;
  }

  function update(all) {
    rows = all;
    const counts = new Map(tally(filtered(all, { ...filters, state: [] }), (row) => [stateOf(row)]));
    const words = JSON.stringify([[...counts], filters.state]);
    if (words !== told) drawStates(counts);
    told = words;
    for (const one of menus) one.update();
    const used = MENUS.reduce((sum, [name]) => sum + filters[name].length, 0);
    const label = used ? `Filters (${used})` : "Filters";
    if (together.button.textContent !== label) together.button.textContent = label;
    const number = all.filter((row) => row.hidden).length;
    hidden.hidden = number === 0;
    hiddenText.textContent = `Show ${count(number)} hidden`;
    hiddenBox.checked = filters.hidden;
    if (search.value !== filters.q && document.activeElement !== search) search.value = filters.q;
  }

  function drawStates(counts) {
    const focused = states.contains(document.activeElement) ? document.activeElement.dataset.state : null;
    const shown = STATES.filter((state) => counts.get(state) || filters.state.includes(state));
    put(states, shown.map((state) => h("button", {
      type: "button", class: "quiet", "aria-pressed": String(filters.state.includes(state)), dataset: { state },
      onclick: () => change({ state: toggled(filters.state, state) }),
    }, h("b", {}, count(counts.get(state) ?? 0)), h("span", { class: `state ${state}` }, state))));
    if (focused) states.querySelector(`[data-state="${focused}"]`)?.focus();
  }

  return { element, update, search };
}

const toggled = (list, value) => (list.includes(value) ? list.filter((one) => one !== value) : [...list, value]);

// Which runs are shown: by words, states, worlds, tags and folders.

/** The filters of an address without any. */
export const NO_FILTERS = { q: "", state: [], world: [], learner: [], tag: [], place: [], hidden: false };

/** The rows that all filters let through. Each word searched for must be in the name, world, learner, tags or group. */
export function filtered(rows, filters) {
  const words = filters.q.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (chosen, value) => chosen.length === 0 || chosen.includes(value);
  return rows.filter((row) =>
    (filters.hidden || !row.hidden) && fits(filters.state, stateOf(row)) && fits(filters.world, row.world)
    && fits(filters.learner, row.learner) && fits(filters.place, row.place)
    && (filters.tag.length === 0 || filters.tag.some((tag) => (row.tags ?? []).includes(tag)))
    && (words.length === 0 || hasWords(row, words)));
}

function hasWords(row, words) {
  const text = [row.name, row.world, row.learner, row.place, row.group, ...(row.tags ?? [])].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

/** How many rows have each value: [[value, count], ...], the most frequent first. */
function tally(rows, values) {
  const found = new Map();
  for (const row of rows) for (const value of values(row)) if (value) found.set(value, (found.get(value) ?? 0) + 1);
  return [...found].sort(([a, m], [b, n]) => n - m || a.localeCompare(b));
}

export const isFiltered = (filters) =>
  Object.entries(NO_FILTERS).some(([name, none]) => name !== "hidden" && String(filters[name]) !== String(none));
