// The curves of a comparison as a table: their colours, where they ended, and how high they were.

import { get, runPath, split } from "../api.js";
import { colour, dash } from "../chart.js";
import { card, h, headed, link, put, radios, scrolled, svg } from "../dom.js";
import { number, short } from "../format.js";
import { filtered, NO_FILTERS } from "../runs/run_toolbar.js";
import { dataTable } from "../table.js";

const HEADS = ["Curve", ["Last", "number"], ["Highest", "number"], ["Steps", "number wide"]];

/**
 * `curves` as they are drawn; `row(id)` is what is known of a run. `hidden` is a set of ids, changed in place;
 * `show(index, on)` and `focus(index)` act on the chart; `remove(ids)` takes runs out.
 */
export function compareLegend(curves, { row, hidden, show, focus, remove }) {
  const lines = curves.map((curve, i) => line(curve, i));
  return headed([...HEADS, null], lines, { caption: "Curves", class: "curves" });

  function line(curve, i) {
    const known = curve.y.filter((value) => value !== null), found = row(curve.id), last = known.at(-1) ?? null;
    const box = h("input",
      { type: "checkbox", checked: !hidden.has(curve.id), "aria-label": `Draw ${curve.label}`,
        onchange: () => toggle(curve, i, box.checked) });
    const isOne = (curve.ids?.length ?? 1) === 1;
    const name = isOne ? link(runPath("/runs", curve.id), {}, curve.label) : h("span", {}, curve.label);
    const out = h("button",
      { type: "button", class: "quiet", "aria-label": `Remove ${curve.label}`,
        onclick: () => remove(curve.ids ?? [curve.id]) }, "×");
    const text = [number(last), number(known.length ? known.reduce((a, b) => Math.max(a, b)) : null),
      found ? short(found.steps) : "–"];
    return h("tr", { onpointerenter: () => focus(i), onpointerleave: () => focus(null) },
      h("th", { scope: "row" }, h("span", { class: "curve-name" }, box, sample(i), name)),
      text.map((one, at) => h("td", { class: HEADS[at + 1][1] }, one)), h("td", { class: "number" }, out));
  }

  function toggle(curve, i, on) {
    if (on) hidden.delete(curve.id);
    else hidden.add(curve.id);
    show(i, on);
  }
}

/** A short line as the curve is drawn. */
function sample(i) {
  const pattern = dash(i)?.join(" ");
  return svg("svg", { class: "sample", width: 22, height: 8, "aria-hidden": "true" },
    svg("line", { x1: 0, y1: 4, x2: 22, y2: 4, stroke: colour(i), "stroke-width": 2.5, "stroke-dasharray": pattern }));
}

// The settings in which the compared runs differ.

const MOST = 8; // runs side by side; more do not fit on a page

/** A card with a table: a row for each setting that is not the same in all runs. */
export async function compareSettings(ids, signal) {
  const [first, ...others] = ids.slice(0, MOST);
  const found = await Promise.all(others.map((id) => get(runPath("/api/runs", first, "/diff"), { with: id }, signal)));
  const keys = [...new Set(found.flatMap((one) => Object.keys(one)))].sort();
  if (keys.length === 0) return card("Settings", h("p", { class: "muted" }, "These runs have the same settings."));
  const head = ids.slice(0, MOST).map((id) => link(runPath("/runs", id), {}, split(id)[1]));
  const body = keys.map((key) => {
    const own = found.find((one) => key in one)[key][0];
    const values = [own, ...found.map((one) => (key in one ? one[key][1] : own))];
    return h("tr", {}, h("th", { scope: "row", class: "mono" }, key),
      values.map((value) => h("td", { class: "mono" }, text(value))));
  });
  const more = ids.length > MOST && h("p", { class: "muted small" }, `The first ${MOST} of ${ids.length} runs.`);
  return card("Settings that differ", more, scrolled("Settings that differ", headed(["Setting", ...head], body)));
}

const text = (value) =>
  (value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));

// What of the runs is compared: the metric, the axis, smoothing, bands over seeds.

const BAND = "Runs that differ in their seed alone as one curve: interquartile mean with its 95 % bootstrap interval";
const AXES = [["steps", "Steps"], ["time", "Time"], ["episodes", "Episodes"]];

/** `state` is read, `change(values)` is called with what was chosen. Returns {element, setMetrics(names)}. */
export function compareControls(state, change) {
  const metric = h("select", { onchange: () => change({ metric: metric.value }) });
  const axis = radios("x", "Axis", AXES, state.x, change);
  const amount = h("output", { class: "mono" }, state.smoothing.toFixed(2));
  const smoothing = h("input",
    { type: "range", min: 0, max: 0.99, step: 0.01, value: state.smoothing, oninput: smooth });
  const seeds = h("input", {
    type: "checkbox", checked: state.bands === "seeds",
    onchange: () => change({ bands: seeds.checked ? "seeds" : "none" }),
  });
  const element = h("div", { class: "row compare-controls" },
    h("label", {}, "Metric", metric), axis, h("label", { class: "row needs-server" }, "Smoothing", smoothing, amount),
    h("label", { class: "needs-bands", title: BAND }, seeds, " Seeds as one band"));

  function smooth() {
    amount.textContent = Number(smoothing.value).toFixed(2);
    change({ smoothing: Number(smoothing.value) });
  }

  return {
    element,
    setMetrics(names) {
      const all = names.includes(state.metric) || !state.metric ? names : [state.metric, ...names];
      put(metric, all.map((name) => h("option", { value: name, selected: name === state.metric }, name)));
    },
  };
}

// A table to choose the runs that are compared.

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
