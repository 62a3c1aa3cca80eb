// The columns of the table of runs.

import { spark } from "../spark.js";
import { h, link } from "../dom.js";
import { count, duration, moment, number, percent, short, when } from "../format.js";
import { runPath } from "../run_id.js";

/** Which columns are shown where nobody has chosen, by the width of the page. */
export function usualColumns(width) {
  if (width <= 640) return ["name", "return", "curve"];
  const few = ["name", "state", "share", "return", "curve"];
  if (width <= 1000) return few;
  const more = [...few, "world", "learner", "steps_per_second", "eta_seconds"];
  if (width <= 1200) return more;
  const many = [...more, "num_envs", "bottleneck"];
  return width <= 1500 ? many : [...many, "best_eval", "created"];
}

/** All columns; `curves` is what gives the small curves. */
export function runColumns(curves) {
  const figure = { number: true, descending: true };
  return [
    { key: "name", title: "Run", header: true, grow: true, width: 8.6, cell: nameCell, stamp: nameStamp },
    { key: "state", title: "State", width: 7.2, value: stateOf, stamp: (row) => `${row.state} ${row.stuck}`,
      cell: stateCell },
    { key: "world", title: "World", width: 8 },
    { key: "learner", title: "Learner", width: 5.4 },
    { key: "num_envs", title: "Envs", width: 4.4, ...figure, cell: (row) => count(row.num_envs) },
    { key: "share", title: "Steps", width: 7.8, descending: true,
      hint: "Steps taken of all steps; sorted by the share that is done", cell: stepsCell,
      stamp: (row) => `${row.steps} ${row.total_steps}` },
    { key: "steps_per_second", title: "Steps/s", width: 5.8, ...figure, cell: (row) => short(row.steps_per_second) },
    { key: "return", title: "Return", width: 5.4, ...figure, hint: "Mean return of the latest episodes of training",
      cell: (row) => number(row.return) },
    { key: "curve", title: "Curve", width: 7.6, sortable: false, hint: "Return over the whole run",
      stamp: curves.version, value: () => null, cell: (row) => spark(curves.values(row), { width: 90 }) },
    { key: "best_eval", title: "Best eval", width: 5.8, ...figure, hint: "Best mean return of an evaluation",
      cell: (row) => number(row.best_eval) },
    { key: "last_eval", title: "Last eval", width: 5.8, ...figure, cell: (row) => number(row.last_eval) },
    { key: "eta_seconds", title: "ETA", width: 6.2, number: true, hint: "Time until the run ends",
      cell: (row) => duration(row.eta_seconds) },
    { key: "bottleneck", title: "Bottleneck", width: 9.6, hint: "Where most of the time goes", cell: bottleneckCell },
    { key: "episodes", title: "Episodes", width: 5.8, ...figure, cell: (row) => count(row.episodes) },
    { key: "seconds", title: "Time", width: 6.6, ...figure, hint: "Time spent training",
      cell: (row) => duration(row.seconds) },
    { key: "seed", title: "Seed", width: 4.2, number: true, cell: (row) => row.seed ?? "–" },
    { key: "group", title: "Group", width: 5.6, hint: "Runs that differ in their seed alone have the same group",
      cell: (row) => row.group ?? "–" },
    { key: "created", title: "Started", width: 7.4, descending: true, cell: (row) => momentCell(row.created) },
    { key: "updated", title: "Last event", width: 7.4, descending: true, cell: (row) => momentCell(row.updated) },
    { key: "place", title: "Folder", width: 6 },
  ];
}

/** The state of a run in one word; a running run may be stuck. */
export const stateOf = (row) => (row.stuck ? "stuck" : row.state);

const nameStamp = (row) => [row.name, stateOf(row), percent(row.share), row.hidden, ...(row.tags ?? [])].join("\n");

function nameCell(row) {
  const tags = (row.tags ?? []).map((tag) => h("span", { class: "tag" }, tag));
  const mark = row.hidden && h("span", { class: "muted small" }, "hidden");
  const below = h("span", { class: "below" }, stateCell(row), row.state === "running" && ` ${percent(row.share)}`);
  return h("div", { class: "run-name" }, link(runPath("/runs", row.id), { title: row.name }, row.name),
    h("span", { class: "marks" }, tags, mark), below);
}

function stateCell(row) {
  return h("span", { class: `state ${stateOf(row)}`, title: row.stuck }, stateOf(row));
}

const momentCell = (time) => h("span", { title: when(time) }, moment(time));

/** The share and what it is spent on; the whole sentence, with its remedy, is the title. */
function bottleneckCell(row) {
  const found = /^(\S+ %) of the time is spent on (?:the )?([^;]+?)(?: on the CPU)?;/.exec(row.bottleneck ?? "");
  return h("span", { title: row.bottleneck }, found ? `${found[1]} ${found[2]}` : row.bottleneck ?? "–");
}

function stepsCell(row) {
  const done = Math.max(0, Math.min(1, row.share ?? 0));
  const text = row.total_steps ? `${short(row.steps)} of ${short(row.total_steps)}` : short(row.steps);
  const bar = row.share === null
    || h("div", { class: "bar", "aria-hidden": "true" }, h("span", { style: { width: `${100 * done}%` } }));
  return h("div", { class: "steps" }, h("span", {}, text), bar !== true && bar);
}
