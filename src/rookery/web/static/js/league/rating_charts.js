// Ratings as curves: of a training run over its steps, and of the agents of a tournament over theirs.

import { band, chart, colour, dash } from "../chart.js";
import { card, h, put } from "../dom.js";
import { number } from "../format.js";

const MOST_RUNS = 8;

/** Curves of all players over the steps of the run, the learner's with its standard deviation: `set(answer)`. */
export function ratingCurves(container) {
  let drawn = null, names = "";
  return {
    set({ steps, players }) {
      const wanted = JSON.stringify(players.map(({ name }) => name));
      if (wanted !== names) {
        drawn?.destroy();
        put(container, steps.length ? null : h("p", { class: "muted" }, "No ratings yet."));
        drawn = steps.length ? chart(container, options(players)) : null;
        names = wanted;
      }
      drawn?.set([steps, ...players.map(({ mu }) => mu), ...edges(players[0])]);
    },
    destroy: () => drawn?.destroy(),
  };
}

function options(players) {
  const series = players.map(({ name }, k) => ({
    label: name, colour: colour(k), dash: dash(k), width: k ? 1.25 : 2.5, points: { show: players.length < 2 },
  }));
  return {
    label: "Rating of each player over the steps of the run; the table below has the latest ones", height: 300,
    series: [...series, ...band(0, players.length + 1)], yText: number,
  };
}

/** Mean minus and plus the standard deviation. */
function edges({ mu, sigma }) {
  const at = (sign) => mu.map((value, i) => (value === null || sigma[i] === null ? null : value + sign * sigma[i]));
  return [at(-1), at(1)];
}

/** The ratings of a tournament's agents over the steps that they were trained for, a curve a run: `set(players)`. */
export function agentRatings(container) {
  let drawn = null, shown = "";
  return {
    set(players) {
      const known = players.filter(({ step, mu, run }) => step !== null && mu !== null && run !== null);
      const runs = [...new Set(known.map(({ run }) => run))].slice(0, MOST_RUNS);
      const steps = [...new Set(known.map(({ step }) => step))].sort((a, b) => a - b), now = JSON.stringify(known);
      if (now === shown) return;
      shown = now;
      drawn?.destroy();
      drawn = null;
      put(container);
      if (steps.length > 1) drawn = draw(container, runs, steps, known);
    },
    destroy: () => drawn?.destroy(),
  };
}

function draw(container, runs, steps, players) {
  const box = h("div");
  container.append(card("Rating of each agent over its steps", box));
  const column = (run, value) => steps.map((step) => {
    const player = players.find((one) => one.run === run && one.step === step);
    return player ? value(player) : null;
  });
  const series = runs.flatMap((run, k) => [{ label: run, colour: colour(k), points: { show: true, size: 6 } },
    ...band(k, 3 * k + 2)]);
  const made = chart(box, {
    label: "Rating of each agent of the tournament over the steps that it was trained for", series, height: 280,
    legend: runs.length > 1,
  });
  made.set([steps, ...runs.flatMap((run) => [column(run, ({ mu }) => mu), column(run, ({ mu, sigma }) => mu - sigma),
    column(run, ({ mu, sigma }) => mu + sigma)])]);
  return made;
}
