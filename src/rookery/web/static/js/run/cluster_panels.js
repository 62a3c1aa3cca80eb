// The cluster of a run: who steps its envs where, what travels, how old it is, and who waits.

import { h } from "../dom.js";
import { bytes, count, percent } from "../format.js";
import { CurvePanel } from "./curve_panel.js";
import { colour } from "../chart.js";

const LEARNER = ["policy", "learner", "gpu", "evaluation"];  // parts of the time in which the learner's process works
const ADDRESS = /^https?:\/\/[\w.:[\]-]+\/?$/;  // the run's events are only text: no other kind of link is made of them
const WORK = ["cluster/busy", "time/learner", "time/policy", "time/waiting"];

/** The curves of a cluster's figures; none for a run on one machine. */
export function clusterPanels(known) {
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
export function clusterCard({ facts = {}, progress = {} }) {
  const figure = (name) => progress[`cluster/${name}`];
  if (figure("collectors") === undefined) return null;
  const learner = LEARNER.reduce((sum, part) => sum + (progress[`time/${part}`] ?? 0), 0);
  const boxes = [
    [count(figure("nodes")), "nodes"], [count(figure("collectors")), "collectors"], [count(figure("lost")), "lost"],
    [figure("in_flight"), "in flight"], [figure("staleness"), "staleness, updates"],
    [figure("discarded_steps"), "steps discarded"], [`${bytes(Math.round(figure("bytes_per_second")))}/s`, "travel"],
    [percent(learner), "of the time the learner works"], [percent(figure("busy")), "of the time collectors work"],
    [percent(progress["time/waiting"]), "of the time the learner waits"],
  ].filter(([value]) => value !== undefined);
  return [h("h2", {}, "Cluster"),
    h("div", { class: "figures" }, boxes.map(([value, text]) =>
      h("div", { class: "number-box" }, h("b", {}, typeof value === "number" ? count(value) : value),
        h("span", {}, text)))),
    dashboardLink(facts.cluster_dashboard), collectorTable(facts.collectors, figure)];
}

function dashboardLink(address) {
  if (typeof address !== "string" || !ADDRESS.test(address)) return null;
  return h("p", {}, h("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, "Ray's own dashboard"),
    h("span", { class: "muted small" }, ` at ${address}, as the learner's machine sees it`));
}

/** Where each collector began, and how busy it is. */
function collectorTable(places, figure) {
  if (!Array.isArray(places) || !places.length) return null;
  const heads = ["collector", "began on", "share of the time it works"];
  const rows = places.slice(0, 200).map((place, k) => h("tr", {}, h("td", { class: "number" }, k), h("td", {}, place),
    h("td", { class: "number" }, percent(figure(`busy_${k}`) ?? (places.length === 1 ? figure("busy") : undefined)))));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {},
    h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)));
}
