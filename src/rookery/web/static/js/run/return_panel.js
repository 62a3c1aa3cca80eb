// Returns and lengths of episodes, with those of evaluations.

import { colour } from "../chart.js";
import { CurvePanel } from "./curve_panel.js";

export const RETURN_METRICS = ["episode/return", "eval/return", "eval/return_low", "eval/return_high"];
export const LENGTH_METRICS = ["episode/length", "eval/length"];
const EDGE = { legend: false, colour: "#00000000" };
const DOTS = { show: true, size: 5 };

/** Returns of episodes, of evaluations, and the 95 % interval of these as a band. */
export function returnPanel(known, height) {
  const names = RETURN_METRICS;
  const series = [{ label: "episodes", colour: colour(0) }, { label: "evaluations, with their 95 % interval", colour: colour(1), points: DOTS, width: 2 }, EDGE, EDGE];
  if (!known.has("eval/return")) return new CurvePanel({ title: "Return", names: names.slice(0, 1), series: series.slice(0, 1), height });
  return new CurvePanel({ title: "Return", names, series, height, bands: [{ series: [4, 3], fill: `${colour(1)}38` }] });
}

export function lengthPanel(known, height) {
  const names = LENGTH_METRICS.filter((name) => known.has(name));
  const series = names.map((name) => (name === "eval/length" ? { label: "evaluations", colour: colour(1), points: DOTS, width: 2 } : { label: "episodes", colour: colour(0) }));
  return new CurvePanel({ title: "Episode length, in steps", names, series, height });
}
