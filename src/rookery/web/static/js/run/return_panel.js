// Returns and lengths of episodes, with those of evaluations.

import { colour } from "../chart.js";
import { hasRoom } from "../chart_paths.js";
import { CurvePanel } from "./curve_panel.js";

export const RETURN_METRICS = ["episode/return", "eval/return", "eval/return_low", "eval/return_high"];
export const LENGTH_METRICS = ["episode/length", "eval/length"];
const EDGE = { legend: false, colour: "transparent", width: 0 };
const BAND = { ...EDGE, fill: `${colour(1)}38`, down: 3 };
const DOTS = { show: hasRoom, size: 5 };

/** Returns of episodes, of evaluations, and the 95 % interval of these as a band. */
export function returnPanel(known, height) {
  const names = RETURN_METRICS, episodes = { label: "episodes", colour: colour(0) };
  const alone = { title: "Return", names: ["episode/return"], series: [episodes], height };
  if (!known.has("eval/return")) return new CurvePanel(alone);
  const evaluations = { label: "evaluations, with their 95 % interval", colour: colour(1), points: DOTS, width: 2 };
  return new CurvePanel({ title: "Return", names, series: [episodes, evaluations, EDGE, BAND], height });
}

export function lengthPanel(known, height) {
  const names = LENGTH_METRICS.filter((name) => known.has(name));
  const evaluations = { label: "evaluations", colour: colour(1), points: DOTS, width: 2 };
  const series = names.map((name) => (name === "eval/length" ? evaluations : { label: "episodes", colour: colour(0) }));
  return new CurvePanel({ title: "Episode length, in steps", names, series, height });
}
