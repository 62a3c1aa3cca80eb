// The columns of the table of runs.

import { get, idList, runPath } from "../api.js";
import { h, link, svg } from "../dom.js";
import { count, duration, moment, number, percent, short, when } from "../format.js";

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
    { key: "return", title: "Return", width: 5.4, ...figure, hint: "Mean return of the last 100 episodes",
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

// A small curve for a table.

/** A small curve of a few values for a table; `label` says what it shows, if nothing beside it does. */
function spark(values, { width = 96, height = 22, label = null } = {}) {
  const known = values.filter((value) => value !== null && Number.isFinite(value));
  const low = Math.min(...known), span = Math.max(...known) - low || 1;
  const x = (i) => (2 + (i / (known.length - 1)) * (width - 5)).toFixed(1);
  const y = (value) => (height - 3 - ((value - low) / span) * (height - 6)).toFixed(1);
  const named = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  const image = svg("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, ...named });
  if (known.length < 2) return image;
  image.append(svg("polyline", { points: known.map((value, i) => `${x(i)},${y(value)}`).join(" ") }));
  image.append(svg("circle", { cx: x(known.length - 1), cy: y(known.at(-1)), r: 1.8 }));
  return image;
}

// Small curves of the runs in sight: asked for together, and again now and then while a run continues.

const MOST = 100; // in one question
const WAIT_MS = 60; // so that all rows that a scroll brings into sight are in one question
const FRESH_MS = 5000;

/** `came()` is called when curves have come. Returns {version(row), values(row), end()}. */
export function sparks(came) {
  const known = new Map(), wanted = new Set(), abort = new AbortController();
  let timer = 0;

  /** A number that changes with the curve; to ask for it is to want the curve. */
  function version(row) {
    const found = known.get(row.id);
    const isOld = found && found.steps !== row.steps && performance.now() - found.time > FRESH_MS;
    if (!found || isOld) want(row);
    return found?.version ?? 0;
  }

  function want(row) {
    const found = known.get(row.id);
    known.set(row.id, { version: found?.version ?? 0, values: found?.values ?? [], steps: row.steps,
      time: performance.now() });
    wanted.add(row.id);
    timer ||= setTimeout(ask, WAIT_MS);
  }

  async function ask() {
    const ids = [...wanted].slice(0, MOST);
    for (const id of ids) wanted.delete(id);
    timer = wanted.size ? setTimeout(ask, WAIT_MS) : 0;
    try {
      const found = await get("/api/sparks", { ids: idList(ids) }, abort.signal);
      for (const [id, values] of Object.entries(found)) keep(id, values);
      came();
    } catch (error) {
      if (error.name === "AbortError") return;
      for (const id of ids) known.delete(id); // asked again with the next news
    }
  }

  function keep(id, values) {
    const found = known.get(id);
    if (found) Object.assign(found, { values, version: found.version + 1 });
  }

  return { version, values: (row) => known.get(row.id)?.values ?? [], end() { clearTimeout(timer); abort.abort(); } };
}
