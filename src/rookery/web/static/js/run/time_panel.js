// Where the time of a run goes: shares of its parts, one on top of the other.

import { colour } from "../chart.js";
import { hasRoom } from "../chart_paths.js";
import { stacked } from "./columns.js";
import { CurvePanel } from "./curve_panel.js";
import { percent } from "../format.js";

const PARTS = ["env", "policy", "learner", "gpu", "waiting", "evaluation", "other"];
export const TIME_METRICS = PARTS.map((part) => `time/${part}`);
const COLOURS = [2, 0, 3, 7, 1, 5, 8];

/** The panel of those parts that the run has measured. */
export function timePanel(known, height = 230) {
  const parts = PARTS.filter((part) => known.has(`time/${part}`));
  let shares = [];
  // The whole stack is drawn first, then what is below it over it: each part is seen between two tops.
  const series = parts.map((part, k) => area(part, (row) => shares[k]?.[row])).toReversed();
  return new CurvePanel({
    title: "Where the time goes", names: parts.map((part) => `time/${part}`), series, height,
    scales: { y: { range: [0, 1] } }, yText: percent, yAxis: percent,
    shape: (columns) => {
      const stack = stacked(columns);
      shares = stack.shares;
      return stack.data;
    },
  });
}

function area(part, told) {
  const its = colour(COLOURS[PARTS.indexOf(part)]);
  return { label: part, colour: its, fill: its, told };
}

// Returns and lengths of episodes, with those of evaluations.

export const RETURN_METRICS = ["episode/return", "eval/return", "eval/return_low", "eval/return_high"];
export const LENGTH_METRICS = ["episode/length", "eval/length"];
const EPISODES = "episodes, mean of the last 100"; // as in the run's plot
const EDGE = { legend: false, colour: "transparent", width: 0 };
const BAND = { ...EDGE, fill: `${colour(1)}38`, down: 3 };
const DOTS = { show: hasRoom, size: 5 };

/** Returns of episodes, of evaluations, and the 95 % interval of these as a band. */
export function returnPanel(known, height) {
  const names = RETURN_METRICS, episodes = { label: EPISODES, colour: colour(0) };
  const alone = { title: "Return", names: ["episode/return"], series: [episodes], height };
  if (!known.has("eval/return")) return new CurvePanel(alone);
  const evaluations = { label: "evaluations, mean with 95 % interval", colour: colour(1), points: DOTS, width: 2 };
  return new CurvePanel({ title: "Return", names, series: [episodes, evaluations, EDGE, BAND], height });
}

export function lengthPanel(known, height) {
  const names = LENGTH_METRICS.filter((name) => known.has(name));
  const evaluations = { label: "evaluations", colour: colour(1), points: DOTS, width: 2 };
  const series = names.map((name) => (name === "eval/length" ? evaluations : { label: EPISODES, colour: colour(0) }));
  return new CurvePanel({ title: "Episode length, in steps", names, series, height });
}
