// The curves of several runs, one over the other. The choices are in the address.

import { addressOf, addressState } from "../address_state.js";
import { get, idList, runPath } from "../api.js";
import { compareChart } from "../compare/compare_chart.js";
import { compareControls, compareLegend, compareSettings, runPicker } from "../compare/compare_legend.js";
import { h, link, put } from "../dom.js";
import { count } from "../format.js";
import { liveRows } from "../runs/live_rows.js";

const DEFAULTS = { run: [], metric: "", x: "steps", smoothing: 0, bands: "none" };
const FIRST_METRICS = ["episode/return", "eval/return"];
const ASKED_FOR_METRICS = 4; // runs; others have much the same metrics
const AGAIN_MS = 3000; // between two questions while runs continue
const WAIT_MS = 120; // while a hand is on the smoothing

export async function show(container, { signal }) {
  const address = addressState(DEFAULTS), { state } = address, picked = new Set(state.run), hidden = new Set();
  const controls = compareControls(state, (values) => { address.change(values); later(WAIT_MS); });
  const number = h("span", { class: "muted", role: "status" });
  const said = h("p", { class: "note error", role: "alert", hidden: true });
  const drawing = h("section", { class: "card", "aria-label": "Curves" }), plotted = h("div");
  const legend = h("div", { class: "scroll" });
  const settings = h("div"), choice = h("details", { class: "card choose" }, h("summary", {}, "Choose runs"));
  const parting = link("/diff", { class: "button needs-server", hidden: true }, "Where they part");
  let drawn = null, timer = 0, turn = 0, asked = "", steps = "";

  const live = await liveRows(news, signal), picker = runPicker(picked, choose);
  choice.append(picker.element);
  choice.open = picked.size === 0;
  put(drawing, controls.element, plotted, legend);
  const heading = h("div", { class: "row heading" }, h("h1", {}, "Compare runs"), number, h("span", { class: "grow" }),
    parting);
  put(container, heading, said, drawing, choice, settings);

  function choose() {
    address.change({ run: [...picked] });
    picker.refresh();
    refresh();
  }

  function news(rows) {
    picker.set(rows);
    const now = stepsOf();
    if (now === steps) return;
    steps = now;
    later(AGAIN_MS);
  }

  const stepsOf = () => state.run.map((id) => live.find(id)?.steps).join();

  function later(wait) { timer ||= setTimeout(() => { timer = 0; refresh(); }, wait); }

  async function refresh() {
    const mine = ++turn;
    drawing.hidden = state.run.length === 0;
    parting.hidden = state.run.length !== 2;
    parting.setAttribute("href", addressOf("/diff", { run: state.run }));
    number.textContent = state.run.length ? count(state.run.length)
      : "Choose two or more below, or select them in the table of runs.";
    try {
      await findMetrics();
      const curves = state.run.length ? (await ask()).curves : [];
      if (mine !== turn) return;
      draw(curves);
      said.hidden = true;
    } catch (error) {
      if (error.name === "AbortError" || mine !== turn) return;
      said.textContent = error.message;
      said.hidden = false;
    }
  }

  const ask = () =>
    get("/api/compare", { ids: idList(state.run), metric: state.metric, x: state.x, smoothing: state.smoothing,
      bands: state.bands }, signal);

  async function findMetrics() {
    const ids = state.run.slice(0, ASKED_FOR_METRICS);
    if (ids.join("\n") === asked) return;
    asked = ids.join("\n");
    const found = await Promise.allSettled(ids.map((id) => get(runPath("/api/runs", id, "/metrics"), {}, signal)));
    const names = [...new Set(found.flatMap((one) => (one.value?.names ?? []).map(({ name }) => name)))].sort();
    if (!state.metric) state.metric = FIRST_METRICS.find((name) => names.includes(name)) ?? names[0]
      ?? FIRST_METRICS[0];
    controls.setMetrics(names);
    showSettings();
  }

  async function showSettings() {
    const ids = [...state.run];
    put(settings);
    const card = ids.length > 1 ? await compareSettings(ids, signal).catch(() => null) : null;
    if (ids.join() === state.run.join()) put(settings, card);
  }

  function draw(curves) {
    const known = curves.filter((curve) => curve.x.length > 0);
    if (drawn?.fits(known, state)) drawn.set(known);
    else drawAnew(known, curves.length > 0);
    const focused = legend.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    put(legend, known.length > 0 && compareLegend(known, {
      row: live.find, hidden, show: (i, on) => drawn.show(i, on), focus: (i) => drawn.focus(i),
      remove: (ids) => { ids.forEach((id) => picked.delete(id)); choose(); },
    }));
    if (focused) legend.querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
  }

  function drawAnew(curves, isAny) {
    drawn?.destroy();
    put(plotted);
    drawn = curves.length ? compareChart(plotted, curves, state) : null;
    if (!drawn && isAny) put(plotted, h("p", { class: "empty" }, `No run chosen has the metric ${state.metric}.`));
    curves.forEach((curve, i) => { if (hidden.has(curve.id)) drawn.show(i, false); });
  }

  document.title = "Compare · rookery";
  picker.set(live.rows());
  steps = stepsOf();
  refresh();
  return () => {
    clearTimeout(timer);
    turn++;
    live.end();
    drawn?.destroy();
    picker.destroy();
  };
}
