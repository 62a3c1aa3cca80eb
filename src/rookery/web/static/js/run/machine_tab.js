// What a run takes of the machine: its time, CPU, memory, GPU, and each worker; and of a cluster.

import { colour } from "../chart.js";
import { CurvePanel } from "./curve_panel.js";
import { figure, h, headed, put } from "../dom.js";
import { bytes, count, number, percent } from "../format.js";
import { timePanel } from "./time_panel.js";

/** Fill the tab; returns a function that ends it. */
export function machineTab(panel, { model, board, known, bar }) {
  const grid = h("div", { class: "grid" }), workers = h("section", { class: "card" });
  const cluster = h("section", { class: "card" });
  panel.append(bar.element, cluster, grid, workers);
  const panels = [...clusterPanels(known), ...machinePanels(known)];
  board.show(grid, panels);
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
  const cell = (name, value) => h("td", { class: typeof value === "number" && "number" }, valueText(name, value));
  const lines = rows.map((row) => h("tr", {}, columns.map((name) => cell(name, row[name]))));
  return h("div", { class: "scroll" }, headed(columns.map((name) => name.replaceAll("_", " ")), lines));
}

function valueText(name, value) {
  if (typeof value !== "number") return value ?? "–";
  return /memory|bytes/.test(name) ? bytes(value) : number(value);
}

// The cluster of a run: who steps its envs where, what travels, how old it is, and who waits.

const LEARNER = ["policy", "learner", "gpu", "evaluation"];  // parts of the time in which the learner's process works
const ADDRESS = /^https?:\/\/[\w.:[\]-]+\/?$/;  // the run's events are only text: no other kind of link is made of them
const WORK = ["cluster/busy", "time/learner", "time/policy", "time/waiting"];

/** The curves of a cluster's figures; none for a run on one machine. */
function clusterPanels(known) {
  if (!known.has("cluster/collectors")) return [];
  const share = { scales: { y: { range: [0, 1] } }, yText: percent, yAxis: percent };
  const made = [
    panel("Who works, share of the time", known, WORK, share),
    panel("Bytes a second", known, ["cluster/bytes_per_second"], { yText: bytes }),
    panel("Nodes and collectors", known, ["cluster/nodes", "cluster/collectors", "cluster/learners", "cluster/lost"]),
    panel("In flight, and how old", known, ["cluster/in_flight", "cluster/staleness"]),
    panel("Steps discarded", known, ["cluster/discarded_steps"]),
  ];
  return made.filter(Boolean);
}

const LABELS = { "cluster/busy": "collectors", "time/policy": "learner, acting", "time/waiting": "learner, waiting" };

function panel(title, known, wanted, more = {}) {
  const names = wanted.filter((name) => known.has(name));
  const label = (name) => LABELS[name] ?? name.replace(/^\w+\//, "").replaceAll("_", " ");
  const series = names.map((name, index) => ({ label: label(name), colour: colour(index) }));
  return names.length ? new CurvePanel({ title, names, series, height: 230, ...more }) : null;
}

/** The latest figures, a row per collector, and a link to the cluster's own dashboard; null for other runs. */
function clusterCard({ facts = {}, progress = {} }) {
  const told = (name) => progress[`cluster/${name}`];
  if (told("collectors") === undefined) return null;
  const learner = LEARNER.reduce((sum, part) => sum + (progress[`time/${part}`] ?? 0), 0);
  const boxes = [
    [count(told("nodes")), "nodes"], [count(told("collectors")), "collectors"], [count(told("lost")), "lost"],
    [told("in_flight"), "in flight"], [told("staleness"), "staleness, updates"],
    [told("discarded_steps"), "steps discarded"], [`${bytes(Math.round(told("bytes_per_second")))}/s`, "travel"],
    [percent(learner), "of the time the learner works"], [percent(told("busy")), "of the time collectors work"],
    [percent(progress["time/waiting"]), "of the time the learner waits"],
  ].filter(([value]) => value !== undefined);
  return [h("h2", {}, "Cluster"),
    h("div", { class: "figures" },
      boxes.map(([value, text]) => figure(typeof value === "number" ? count(value) : value, text))),
    dashboardLink(facts.cluster_dashboard), collectorTable(facts.collectors, told)];
}

function dashboardLink(address) {
  if (typeof address !== "string" || !ADDRESS.test(address)) return null;
  return h("p", {}, h("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, "Ray's own dashboard"),
    h("span", { class: "muted small" }, ` at ${address}, as the learner's machine sees it`));
}

/** Where each collector began, and how busy it is. */
function collectorTable(places, told) {
  if (!Array.isArray(places) || !places.length) return null;
  const heads = ["collector", "began on", "share of the time it works"];
  const rows = places.slice(0, 200).map((place, k) => h("tr", {}, h("td", { class: "number" }, k), h("td", {}, place),
    h("td", { class: "number" }, percent(told(`busy_${k}`) ?? (places.length === 1 ? told("busy") : undefined)))));
  return h("div", { class: "scroll" }, headed(heads, rows));
}
