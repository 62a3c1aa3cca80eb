// What a run takes of the machine: its time, CPU, memory, GPU, and each worker; and of a cluster.

import { colour } from "../chart.js";
import { h, put } from "../dom.js";
import { bytes, number, percent } from "../format.js";
import { clusterCard, clusterPanels } from "./cluster_panels.js";
import { CurvePanel } from "./curve_panel.js";
import { timePanel } from "./time_panel.js";

/** Fill the tab; returns a function that ends it. */
export function machineTab(panel, { model, board, known, bar }) {
  const grid = h("div", { class: "grid" }), workers = h("section", { class: "card" });
  const cluster = h("section", { class: "card" });
  panel.append(bar.element, cluster, grid, workers);
  const panels = [...clusterPanels(known), ...machinePanels(known)];
  for (const one of panels) { grid.append(one.element); board.add(one); }
  if (!panels.length) grid.append(h("p", { class: "muted" },
    "This run has measured nothing of the machine: see the setting `system`."));
  let last = [];
  const draw = () => {
    // not every progress has the figures of the machine
    if (model.details.workers?.length) last = model.details.workers;
    const table = workerTable(last);
    workers.hidden = !table;
    put(workers, h("h2", {}, "Workers"), table);
    const card = clusterCard(model.details);
    cluster.hidden = !card;
    put(cluster, card);
  };
  draw();
  model.on("details", draw);
  return () => { model.off("details", draw); board.clear(); };
}

function machinePanels(known) {
  const share = { scales: { y: { range: [0, 1] } }, yText: percent, yAxis: percent };
  const inBytes = { yText: bytes, yAxis: fewDigits };
  const busy = ["system/cpu", "system/gpu"].filter((name) => known.has(name));
  const memory = [...known].filter((name) => /^system\/memory($|_main$|_worker_)/.test(name)).slice(0, 40);
  const gpuMemory = ["system/gpu_memory", "system/gpu_memory_total"].filter((name) => known.has(name));
  const rest = [...known].filter((name) => name.startsWith("system/")
    && ![...busy, ...memory, ...gpuMemory].includes(name));
  const made = [];
  if (known.has("time/env")) made.push(timePanel(known));
  const speed = { title: "Steps a second", names: ["steps_per_second"] };
  if (known.has("steps_per_second")) made.push(new CurvePanel(speed));
  if (busy.length) made.push(panelOf(busy.length > 1 ? "CPU and GPU, busy" : "CPU, busy", busy, share));
  if (memory.length) made.push(panelOf("Memory", memory, inBytes));
  if (gpuMemory.length) made.push(panelOf("Memory of the GPU", gpuMemory, inBytes));
  return [...made, ...rest.map((name) => new CurvePanel({ title: name, names: [name] }))];
}

/** Bytes as short as an axis has room for. */
const fewDigits = (value) =>
  (value >= 2 ** 30 ? `${Number((value / 2 ** 30).toPrecision(2))} GiB` : `${Math.round(value / 2 ** 20)} MiB`);

function panelOf(title, names, more) {
  const series = names.map((name, index) =>
    ({ label: name.replace("system/", "").replaceAll("_", " "), colour: colour(index) }));
  return new CurvePanel({ title, names, series, height: 230, ...more });
}

/** One row per worker, one column per figure that any of them has. */
function workerTable(workers) {
  const rows = Array.isArray(workers) ? workers : Object.values(workers);
  if (!rows.length || typeof rows[0] !== "object") return null;
  const columns = [...new Set(rows.flatMap(Object.keys))];
  const cell = (name, value) => h("td", { class: typeof value === "number" && "number" }, figure(name, value));
  return h("div", { class: "scroll" },
    h("table", {}, h("thead", {},
      h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name.replaceAll("_", " "))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((name) => cell(name, row[name])))))));
}

function figure(name, value) {
  if (typeof value !== "number") return value ?? "–";
  return /memory|bytes/.test(name) ? bytes(value) : number(value);
}
