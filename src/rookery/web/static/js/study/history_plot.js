// What plots of dots show: value against time with the best so far, slices, the Pareto front, intermediate values.

import { duration, number } from "../format.js";
import { extent, roomy } from "./dot_plot.js";
import { ofState } from "./trial_store.js";

/** What a dot tells. */
export function trialText(store, i) {
  const values = store.values.map((column) => number(column[i])).join(", ");
  return `trial ${store.number[i]}: ${values}`;
}

/** The value of each trial over its number or over time, and the best so far. */
export function historyLayers(store, maximise, byTime, allValues = true) {
  const good = store.comparable, value = store.values[0], x = byTime ? store.end : store.number;
  const times = byTime ? store.end.map((end, i) => (Number.isNaN(end) ? store.start[i] : end)) : x;
  const marks = (name, colour) => {
    const places = ofState(store, name).filter((i) => !Number.isNaN(times[i]));
    return { kind: "marks", places, x: times, colour };
  };
  const [first, last] = extent(times, times.keys()), best = bestSoFar(store, maximise, byTime, last);
  return {
    x: { low: Math.min(0, first), high: last, text: byTime ? duration : undefined },
    y: roomy(allValues ? extent(value, good) : likely(value, good)),
    layers: [
      marks("failed", "--bad"), marks("pruned", "--warn"),
      { kind: "dots", places: good, x, y: value, colour: "--dot" },
      { kind: "line", ...best, colour: "--accent", width: 2 },
    ],
  };
}

/** Steps from each record to the next one, up to the end of the axis. */
function bestSoFar(store, maximise, byTime, last) {
  const value = store.values[0], x = byTime ? store.end : store.number, best = { x: [], y: [] };
  const places = byTime ? store.comparable.slice().sort((a, b) => x[a] - x[b]) : store.comparable;
  let record = maximise ? -Infinity : Infinity;
  const add = (at, height) => { best.x.push(at); best.y.push(height); };
  for (const i of places) {
    if (maximise ? value[i] <= record : value[i] >= record) continue;
    if (best.x.length) add(x[i], record);
    record = value[i];
    add(x[i], record);
  }
  if (best.x.length) add(last, record);
  return best;
}

/** From the 5 % quantile to the 95 % one: a few trials far off would hide all others. */
function likely(value, places) {
  const sorted = Float64Array.from(places, (i) => value[i]).sort();
  const at = (share) => sorted[Math.floor(share * (sorted.length - 1))];
  return sorted.length ? [at(0.05), at(0.95)] : [Infinity, -Infinity];
}

/** The value over one parameter; later trials are darker. */
export function sliceLayers(store, param) {
  const column = store.params[param.name], good = store.comparable.filter((i) => !Number.isNaN(column[i]));
  const [low, high] = extent(column, good), x = param.choices ? spread(column, store.number) : column;
  const range = param.log ? { low, high, log: true } : roomy([low, high]);
  return {
    x: { ...range, choices: param.choices }, y: roomy(extent(store.values[0], good)),
    layers: [{ kind: "dots", places: good, x, y: store.values[0], colour: ageColour(store.length) }],
  };
}

/** Dots of one choice side by side instead of on one line. */
function spread(column, number) {
  return column.map((value, i) => value + (((number[i] * 0.618034) % 1) - 0.5) * 0.6);
}

/** From light to dark in 12 steps: setting a colour takes longer than a dot. */
function ageColour(count) {
  const dark = document.documentElement.dataset.theme === "dark";
  const colours = Array.from({ length: 12 }, (_, k) => `hsl(212 60% ${dark ? 30 + 4 * k : 80 - 4 * k}%)`);
  return (i) => colours[Math.min(11, Math.floor((12 * i) / Math.max(1, count)))];
}

/** Two objectives, and the trials that no other beats in both. */
export function paretoLayers(store, front, [first, second]) {
  const good = store.comparable, x = store.values[first], y = store.values[second];
  const known = front.map((one) => store.placeOf(one)).filter((i) => i !== undefined);
  const best = known.sort((a, b) => x[a] - x[b]), edge = { x: best.map((i) => x[i]), y: best.map((i) => y[i]) };
  return {
    x: roomy(extent(x, good)), y: roomy(extent(y, good)),
    layers: [
      { kind: "dots", places: good, x, y, colour: "--dot" },
      ...(store.values.length === 2 ? [{ kind: "line", ...edge, colour: "--accent", alpha: 0.7 }] : []),
      { kind: "dots", places: best, x, y, colour: "--accent", size: 6 },
    ],
  };
}

const CURVE = { // colour, opacity and width by state
  finished: ["--dot", 0.45, 1.25], pruned: ["--warn", 0.7, 1.25], failed: ["--bad", 0.7, 1.25],
  running: ["--good", 1, 2], waiting: ["--dot", 0.5, 1],
};

/** Intermediate values of trials; the best one is thick, pruned ones end with a dot. */
export function curveLayers(curves, best) {
  const x = curves.flatMap((curve) => curve.steps);
  const y = curves.flatMap((curve) => curve.values).map((value) => value ?? NaN);
  const every = [...x.keys()], ends = [0];
  for (const curve of curves) ends.push(ends.at(-1) + curve.steps.length);
  const part = (k) => ({ x: x.slice(ends[k], ends[k + 1]), y: y.slice(ends[k], ends[k + 1]) });
  const lines = curves.map((curve, k) => ({ ...part(k), ...curveStyle(curve, curve.trial === best) }));
  const pruned = [...curves.keys()].filter((k) => curves[k].state === "pruned").map((k) => ends[k + 1] - 1);
  return {
    y, owner: (i) => curves[ends.findIndex((end) => end > i) - 1],
    shown: {
      x: roomy(extent(x, every), 0.02), y: roomy(extent(y, every)),
      layers: [
        ...lines.sort((a, b) => a.isBest - b.isBest),
        { kind: "dots", places: pruned, x, y, colour: "--warn", size: 4 },
        { kind: "targets", places: every, x, y },
      ],
    },
  };
}

function curveStyle(curve, isBest) {
  const [colour, alpha, width] = isBest ? ["--accent", 1, 2.75] : CURVE[curve.state];
  return { kind: "line", isBest, colour, alpha, width };
}
