// One run: its curves, its machine, its episodes, settings, files and log, live.

import { addressState } from "../address_state.js";
import { get } from "../api.js";
import { h, put } from "../dom.js";
import { tabs } from "../tabs.js";
import { configTab } from "../run/config_tab.js";
import { CurveBoard } from "../run/curve_board.js";
import { AXES } from "../run/curve_panel.js";
import { episodesTab } from "../run/episodes_tab.js";
import { filesTab } from "../run/files_tab.js";
import { logTab } from "../run/log_tab.js";
import { machineTab } from "../run/machine_tab.js";
import { metricsTab } from "../run/metrics_tab.js";
import { overviewTab } from "../run/overview_tab.js";
import { runHeader } from "../run/run_header.js";
import { RunModel } from "../run/run_model.js";
import { zoomBar } from "../run/zoom_bar.js";

const TABS = [
  ["overview", "Overview", overviewTab], ["metrics", "Metrics", metricsTab], ["machine", "Time and machine", machineTab],
  ["episodes", "Episodes", episodesTab], ["config", "Settings", configTab], ["files", "Checkpoints and files", filesTab], ["log", "Log", logTab],
];

export async function show(container, { params, signal }) {
  const model = new RunModel(params.place, params.name, signal);
  const [, session, names] = await Promise.all([
    model.load(), get("/api/session", {}, signal).catch(() => ({})), model.metricNames().catch(() => []),
  ]);
  const known = new Set(names.map(({ name }) => name));
  document.title = `${model.name} – rookery`;
  const address = addressState({ tab: "overview", x: "steps", from: "", to: "", q: "", with: "" });
  const board = boardOf(model, address), header = runHeader(model, session), place = h("div");
  header.draw();
  put(container, header.element, place);
  const context = { model, board, known, address, get bar() { return (board.bar = zoomBar(board)); } };
  const parts = tabs(place, TABS.map(([id, title, fill]) => ({ id, title, show: (panel) => fill(panel, context) })), {
    label: "Parts of the run", selected: address.state.tab, onSelect: (tab) => address.change({ tab }),
  });
  listen(model, { board, header, known, parts, address });
  let end = null, over = false;
  model.loadAll().then(() => { if (!over) end = model.live(); }, () => {});
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

function listen(model, { board, header, known, parts, address }) {
  model.on("row", () => header.draw());
  model.on("reset", ({ step }) => board.reset(step ?? 0));
  model.on("event", (event) => {
    board.push(event);
    const before = known.size;
    if (event.kind === "progress" || event.kind === "evaluation") for (const name of newNames(event)) known.add(name);
    if (known.size > before) redraw(parts, address);
  });
}

const NOT_METRICS = new Set(["kind", "step", "time"]);
const newNames = (event) => Object.keys(event).filter((name) => typeof event[name] === "number" && !NOT_METRICS.has(name));

/** A metric came for the first time: tabs with charts show it too, unless somebody is typing there. */
function redraw(parts, { state }) {
  if (document.activeElement?.matches("input")) return;
  if (["overview", "metrics", "machine"].includes(state.tab)) parts.select(state.tab);
}
