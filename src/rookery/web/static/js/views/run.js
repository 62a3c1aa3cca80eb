// One run: its curves, its machine, its episodes, settings, files and log, live.

import { addressState } from "../address_state.js";
import { get } from "../api.js";
import { h, put } from "../dom.js";
import { AXES } from "../format.js";
import { tabs } from "../tabs.js";
import { CurveBoard } from "../run/curve_board.js";
import { zoomBar } from "../run/curve_panel.js";
import { OVERVIEW_METRICS, overviewTab } from "../run/overview_tab.js";
import { runHeader } from "../run/run_header.js";
import { RunModel } from "../run/run_model.js";

const LATER_MS = 2000;
// All but the first are loaded when they are opened: a browser loads six files at a time, and curves wait for them.
const TABS = [
  ["overview", "Overview", () => overviewTab],
  ["metrics", "Metrics", async () => (await import("../run/metrics_tab.js")).metricsTab],
  ["machine", "Time and machine", async () => (await import("../run/machine_tab.js")).machineTab],
  ["episodes", "Episodes", async () => (await import("../run/episodes_tab.js")).episodesTab],
  ["config", "Settings", async () => (await import("../run/config_tab.js")).configTab],
  ["files", "Checkpoints and files", async () => (await import("../run/files_tab.js")).filesTab],
  ["log", "Log", async () => (await import("../run/log_tab.js")).logTab],
];

export async function show(container, { params, signal }) {
  const model = new RunModel(params.place, params.name, signal);
  const address = addressState({ tab: "overview", x: "steps", from: "", to: "", q: "", with: "" });
  const board = boardOf(model, address);
  if (address.state.tab === "overview") board.prefetch(OVERVIEW_METRICS);
  const [, session, found] = await Promise.all([
    model.load(), get("/api/session", {}, signal).catch(() => ({})),
    model.metricNames().catch(() => ({ names: [], exact: false })),
  ]);
  const known = new Set(found.names.map(({ name }) => name));
  document.title = `${model.name} – rookery`;
  const header = runHeader(model, session), place = h("div");
  header.draw();
  put(container, header.element, place);
  const context = {
    model, board, known, address, session, get bar() { board.bar = zoomBar(board); return board.bar; },
  };
  const pages = TABS.map(([id, title, load]) => ({ id, title, load, show: (panel, fill) => fill(panel, context) }));
  const parts = tabs(place, pages, {
    label: "Parts of the run", selected: address.state.tab, onSelect: (tab) => address.change({ tab }),
  });
  place.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest", inline: "center" });  // on a phone
  const learn = (names) => {
    const before = known.size;
    for (const name of names) known.add(name);
    if (known.size > before) redraw(parts, address);
  };
  listen(model, { board, header, learn });
  if (!found.exact) learnLater(model, learn);
  let end = null, over = false;
  model.loadAll().catch(() => {}).then(() => { if (!over) end = model.live(); });  // it tells what went wrong, too
  return () => { over = true; end?.(); parts.destroy(); board.close(); document.title = "rookery"; };
}

function boardOf(model, { state, change }) {
  const from = Number.parseFloat(state.from), to = Number.parseFloat(state.to);
  const range = Number.isFinite(from) && Number.isFinite(to) && from < to ? [from, to] : null;
  const onChange = (board) => {
    board.bar?.draw();
    const [low, high] = board.range ?? ["", ""];
    change({ x: board.axis, from: low === "" ? "" : low.toPrecision(8), to: high === "" ? "" : high.toPrecision(8) });
  };
  return new CurveBoard(model.path, { axis: state.x in AXES ? state.x : "steps", range, onChange });
}

function listen(model, { board, header, learn }) {
  model.on("row", () => header.draw());
  model.on("reset", ({ step }) => board.reset(step ?? 0));
  model.on("event", (event) => {
    board.push(event);
    if (event.kind === "progress" || event.kind === "evaluation") learn(metricsOf(event));
  });
}

const NOT_METRICS = new Set(["kind", "step", "time"]);
const metricsOf = (event) =>
  Object.keys(event).filter((name) => typeof event[name] === "number" && !NOT_METRICS.has(name));

/** Of a very long run the server finds all metrics only after a while. */
async function learnLater(model, learn) {
  let exact = false;
  while (!exact && !model.signal.aborted) {
    await new Promise((done) => setTimeout(done, LATER_MS));
    const found = await model.metricNames().catch(() => ({ names: [], exact: model.row.state === "gone" }));
    exact = found.exact;
    if (!model.signal.aborted) learn(found.names.map(({ name }) => name));
  }
}

/** A metric came for the first time: tabs with charts show it too, unless somebody is typing there. */
function redraw(parts, { state }) {
  if (document.activeElement?.matches("input")) return;
  if (["overview", "metrics", "machine"].includes(state.tab)) parts.select(state.tab);
}
