// Value against time, with the best so far; and the other plots that are made of dots: slices, Pareto front, curves.

import { duration, number } from "../format.js";
import { extent, roomy } from "./axis_scale.js";
import { comparable, ofState } from "./trial_store.js";

/** What a dot tells. */
export function trialText(store, i) {
  const values = store.values.map((column) => number(column[i])).join(", ");
  return `trial ${store.number[i]}: ${values}`;
}

/** The value of each trial over its number or over time, and the best so far. */
export function historyLayers(store, maximise, byTime, allValues = true) {
  const good = comparable(store), value = store.values[0], x = byTime ? store.end : store.number;
  const places = byTime ? good.slice().sort((a, b) => store.end[a] - store.end[b]) : good;
  const best = { x: [], y: [] };
  let record = maximise ? -Infinity : Infinity;
  for (const i of places) {
    if (maximise ? value[i] <= record : value[i] >= record) continue;
    if (best.x.length) { best.x.push(x[i]); best.y.push(record); }
    record = value[i];
    best.x.push(x[i]);
    best.y.push(record);
  }
  const times = byTime ? store.end.map((end, i) => end ?? store.start[i]) : x;
  const everyone = store.number.map((_, i) => i).filter((i) => times[i] !== null), [first, last] = extent(times, everyone);
  if (best.x.length) { best.x.push(last); best.y.push(record); }
  const range = allValues ? extent(value, good) : likely(value, good);
  return {
    x: { low: Math.min(0, first), high: last, text: byTime ? duration : undefined }, y: roomy(range),
    layers: [
      { kind: "marks", places: ofState(store, "failed").filter((i) => times[i] !== null), x: times, colour: "--bad" },
      { kind: "marks", places: ofState(store, "pruned").filter((i) => times[i] !== null), x: times, colour: "--warn" },
      { kind: "dots", places: good, x, y: value, colour: "--dot" },
      { kind: "line", x: best.x, y: best.y, colour: "--accent", width: 2 },
    ],
  };
}

/** From the 5 % quantile to the 100 % one: a few trials far off would hide all others. */
function likely(value, places) {
  const sorted = Float64Array.from(places, (i) => value[i]).sort(), at = (share) => sorted[Math.floor(share * (sorted.length - 1))];
  return sorted.length ? [at(0.05), at(0.95)] : [Infinity, -Infinity];
}

/** The value over one parameter; later trials are darker. */
export function sliceLayers(store, param) {
  const column = store.params[param.name] ?? [], good = comparable(store).filter((i) => column[i] !== null && column[i] !== undefined);
  const [low, high] = extent(column, good), x = param.choices ? spread(column, store.number) : column;
  const range = param.log ? { low, high, log: true } : roomy([low, high]);
  return {
    x: { ...range, choices: param.choices }, y: roomy(extent(store.values[0], good)),
    layers: [{ kind: "dots", places: good, x, y: store.values[0], colour: ageColour(store.length) }],
  };
}

/** Dots of one choice side by side instead of on one line. */
function spread(column, number) {
  return column.map((value, i) => (value === null ? null : value + (((number[i] * 0.618034) % 1) - 0.5) * 0.6));
}

/** From light to dark in 12 steps: setting a colour takes longer than a dot. */
function ageColour(count) {
  const dark = document.documentElement.dataset.theme === "dark";
  const colours = Array.from({ length: 12 }, (_, k) => `hsl(212 60% ${dark ? 30 + 4 * k : 80 - 4 * k}%)`);
  return (i) => colours[Math.min(11, Math.floor((12 * i) / Math.max(1, count)))];
}

/** Two objectives, and the trials that no other beats in both. */
export function paretoLayers(store, front, [first, second]) {
  const good = comparable(store), x = store.values[first], y = store.values[second];
  const best = front.map((one) => store.placeOf(one)).filter((i) => i !== undefined).sort((a, b) => x[a] - x[b]);
  return {
    x: roomy(extent(x, good)), y: roomy(extent(y, good)),
    layers: [
      { kind: "dots", places: good, x, y, colour: "--dot" },
      ...(store.values.length === 2 ? [{ kind: "line", x: best.map((i) => x[i]), y: best.map((i) => y[i]), colour: "--accent", alpha: 0.7 }] : []),
      { kind: "dots", places: best, x, y, colour: "--accent", size: 6 },
    ],
  };
}

const CURVE = { finished: ["--dot", 0.45, 1.25], pruned: ["--warn", 0.7, 1.25], failed: ["--bad", 0.7, 1.25], running: ["--good", 1, 2], waiting: ["--dot", 0.5, 1] };

/** Intermediate values of trials; the best one is thick, pruned ones end with a dot. */
export function curveLayers(curves, best) {
  const all = { x: curves.flatMap((curve) => curve.steps), y: curves.flatMap((curve) => curve.values) };
  const every = all.x.map((_, i) => i), ends = [0];
  for (const curve of curves) ends.push(ends.at(-1) + curve.steps.length);
  const pruned = curves.map((curve, k) => (curve.state === "pruned" ? ends[k + 1] - 1 : null)).filter((i) => i !== null);
  const ordered = curves.slice().sort((a, b) => (a.trial === best) - (b.trial === best));
  return {
    all, owner: (i) => curves[ends.findIndex((end) => end > i) - 1],
    shown: {
      x: roomy(extent(all.x, every), 0.02), y: roomy(extent(all.y, every)),
      layers: [...ordered.map((curve) => curveLine(curve, curve.trial === best)), { kind: "dots", places: pruned, x: all.x, y: all.y, colour: "--warn", size: 4 },
        { kind: "dots", places: every, x: all.x, y: all.y, colour: "transparent", size: 1 }],
    },
  };
}

function curveLine(curve, isBest) {
  const [colour, alpha, width] = isBest ? ["--accent", 1, 2.75] : CURVE[curve.state];
  return { kind: "line", x: curve.steps, y: curve.values, colour, alpha, width };
}
