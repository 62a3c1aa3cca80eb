// Where the time of a run goes: shares of its parts, one on top of the other.

import { colour } from "../chart.js";
import { percent } from "../format.js";
import { stacked } from "./columns.js";
import { CurvePanel } from "./curve_panel.js";

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
