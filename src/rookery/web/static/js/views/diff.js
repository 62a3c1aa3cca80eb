// Where two runs part: by their records at once, and exactly by playing both again.

import { get, idList, runPath, split } from "../api.js";
import { colour, marker } from "../chart.js";
import { compareChart } from "../compare/compare_chart.js";
import { card, h, headed, link, put, scrolled } from "../dom.js";
import { count, number } from "../format.js";

const METRIC = "episode/return";
const HEIGHT = 300; // pixels, of the chart

/** `/diff?run=PLACE/NAME&run=PLACE/NAME` */
export async function show(container, { query, signal }) {
  document.title = "Where two runs part · rookery";
  const ids = query.getAll("run").slice(0, 2);
  if (ids.length < 2) throw new Error("name two runs: /diff?run=PLACE/NAME&run=PLACE/OTHER, or choose them in Compare");
  const names = ids.map((id) => split(id)[1]), said = h("p", { role: "status", class: "parting" });
  const exactly = h("button", { type: "button", class: "main", hidden: true, onclick: () => look(true) },
    "Find the exact step");
  const plotted = h("div"), found = h("div", { class: "stack" }), title = h("h1", {}, "Where two runs part");
  const sample = (k) => h("i", { class: "swatch", style: { background: colour(k) } });
  const both = h("p", { class: "row" }, ids.map((id, k) => [sample(k), link(runPath("/runs", id), {}, names[k])]));
  put(container, title, both, h("section", { class: "card" }, said, exactly, plotted), found);
  let drawn = null, line = null, step = null;

  async function look(replay) {
    exactly.disabled = true;
    put(said, replay ? "Both are played again, from the last checkpoint at which they agree …"
      : "Their records are compared …");
    try {
      const query = { with: ids[1], replay: replay ? 1 : null };
      const answer = await get(runPath("/api/runs", ids[0], "/parting"), query, signal);
      put(said, verdict(answer));
      put(found, arrays(answer), pairs("Settings that differ", answer.config, names),
        pairs("Versions and machines that differ", answer.made_with, names));
      exactly.hidden = answer.equal || replay;
      step = answer.step;
      line?.set(step);
    } catch (error) {
      if (error.name !== "AbortError") put(said, h("span", { class: "bad" }, error.message));
    }
    exactly.disabled = false;
  }

  look(false);
  const { curves } = await get("/api/compare", { ids: idList(ids), metric: METRIC, x: "steps" }, signal)
    .catch(() => ({ curves: [] }));
  const known = curves.filter((curve) => curve.x.length);
  if (known.length) {
    drawn = compareChart(plotted, known, { metric: METRIC, x: "steps" }, HEIGHT);
    line = marker(drawn.plot);
    line.set(step);
  }
  return () => drawn?.destroy();
}

function verdict({ equal, step, update, agree_at: agreed, env, source }) {
  if (equal) return "They are equal in all that both recorded.";
  const at = [`They differ at step ${count(step)}`, update !== null && `after ${count(update)} updates`,
    env !== null && `in env ${env}`].filter(Boolean).join(", ");
  const how = source === "replay" ? "both were played again" : `found in what both recorded: ${source}`;
  return [h("b", {}, `${at}.`), agreed === null ? "" : ` They agree at step ${count(agreed)}.`, ` (${how})`];
}

function arrays({ differences, differences_in_all: all }) {
  if (!differences.length) return null;
  const rows = differences.map((one) => h("tr", {}, h("th", { scope: "row", class: "mono" }, one.name),
    h("td", { class: "number" }, count(one.count)),
    h("td", { class: "number" }, one.largest === null ? "" : number(one.largest)),
    h("td", { class: "mono value" }, one.text.slice(one.name.length).replace(/^: |; [\d,]+ numbers differ.*$/g, ""))));
  const heads = [["what"], ["numbers", "number"], ["by up to", "number"], ["the first"]];
  const more = all > differences.length
    && h("p", { class: "muted small" }, `The first ${differences.length} of ${all}.`);
  return card("What differs there", scrolled("What differs there", headed(heads, rows, { class: "settings" })), more);
}

function pairs(title, values, names) {
  const rows = Object.entries(values).map(([key, both]) => h("tr", {}, h("th", { scope: "row", class: "mono" }, key),
    both.map((value) => h("td", { class: "mono value" }, typeof value === "string" ? value : JSON.stringify(value)))));
  const table = headed(["", ...names].map((one) => [one]), rows, { class: "settings" });
  return rows.length > 0 && card(title, scrolled(title, table));
}
