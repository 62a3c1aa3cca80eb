// The curves of a comparison as a table: their colours, where they ended, and how high they were.

import { colour, dash } from "../chart.js";
import { h, link, svg } from "../dom.js";
import { number, short } from "../format.js";
import { runPath } from "../run_id.js";

const TITLES = ["Curve", "Last", "Highest", "Steps"];
const CLASSES = [false, "number", "number", "number wide"]; // of the columns

/**
 * `curves` as they are drawn; `row(id)` is what is known of a run. `hidden` is a set of ids, changed in place;
 * `show(index, on)` and `focus(index)` act on the chart; `remove(ids)` takes runs out.
 */
export function compareLegend(curves, { row, hidden, show, focus, remove }) {
  const lines = curves.map((curve, i) => line(curve, i));
  return h("table", { class: "curves" }, h("caption", { class: "visually-hidden" }, "Curves"),
    h("thead", {}, h("tr", {}, TITLES.map((title, i) => h("th", { scope: "col", class: CLASSES[i] }, title)), h("td"))),
    h("tbody", {}, lines));

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
      text.map((one, at) => h("td", { class: CLASSES[at + 1] }, one)), h("td", { class: "number" }, out));
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
