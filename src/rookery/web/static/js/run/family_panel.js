// The forks of a run as a tree, with their curves.

import { get, idList, runPath } from "../api.js";
import { colour } from "../chart.js";
import { compareChart } from "../compare/compare_chart.js";
import { card, h, link, put } from "../dom.js";
import { count } from "../format.js";
import { addressOf } from "../address_state.js";

const METRIC = "episode/return";
const MOST = 20; // curves
const AGAIN_MS = 5000;
const HEIGHT = 260; // pixels, of the chart

/** A card that is empty while a run has no forks and is none. Returns {element, draw(), end()}. */
export function familyPanel(model) {
  const element = h("div", { class: "needs-server" }), plotted = h("div");
  let drawn = null, timer = 0, over = false;

  async function draw() {
    clearTimeout(timer);
    try {
      const { runs } = await get(`${model.path}/family`, {}, model.signal);
      if (runs.length < 2 && runs[0]?.step == null) return;
      const ids = runs.slice(0, MOST).map(({ id }) => id);
      const { curves } = await get("/api/compare", { ids: idList(ids), metric: METRIC, x: "steps" }, model.signal);
      if (over) return;
      show(runs, curves.filter((curve) => curve.x.length));
      if (model.row.state === "running" || curves.length < ids.length) timer = setTimeout(draw, AGAIN_MS);
    } catch { /* the page of the run says what is wrong */ }
  }

  function show(runs, curves) {
    const at = new Map(curves.map(({ id }, index) => [id, index])), state = { metric: METRIC, x: "steps" };
    if (!plotted.isConnected) put(element, card("Forks", plotted, h("div", { class: "tree" })));
    if (drawn?.fits(curves, state)) drawn.set(curves);
    else {
      drawn?.destroy();
      drawn = curves.length ? compareChart(plotted, curves, state, HEIGHT) : null;
    }
    put(element.querySelector(".tree"), branch(runs, null, model.id, at),
      runs.length > MOST && h("p", { class: "muted small" }, `Curves of the first ${MOST} of ${runs.length} runs.`));
  }

  draw();
  return { element, draw, end() { over = true; clearTimeout(timer); drawn?.destroy(); } };
}

/** Those with the same parent; the first of the list has none here. */
function branch(runs, parent, here, at) {
  const own = runs.filter((run, index) => (parent === null ? index === 0 : run.parent === parent));
  if (!own.length) return null;
  const lines = own.map((run) => h("li", {}, swatch(at.get(run.id)),
    run.id === here ? h("b", { "aria-current": "page" }, run.name) : link(runPath("/runs", run.id), {}, run.name),
    run.step !== null && h("span", { class: "muted small" },
      ` leaves ${run.from ?? "its parent"} at step ${count(run.step)} `),
    run.parent && link(addressOf("/diff", { run: [run.parent, run.id] }), { class: "small" }, "Where they part"),
    branch(runs, run.id, here, at)));
  return h("ul", { class: "family" }, lines);
}

const swatch = (index) =>
  h("i", { class: "swatch", style: { background: index === undefined ? "none" : colour(index) } });
