// All studies in the folders that are shown.

import { part } from "../api.js";
import { command, h, link } from "../dom.js";
import { count, duration, number } from "../format.js";
import { listing } from "../listing.js";

export const show = (container, { signal }) =>
  listing(container, signal, { title: "Studies", path: "/api/studies", key: "studies", columns: COLUMNS, nothing });

const known = (value) => (row) => (row.error || row.unread ? null : value(row));
const counted = (name, title = name) =>
  ({ key: name, title, width: 5, number: true, descending: true, value: known((row) => row.counts[name]),
    cell: (row) => count(known((one) => one.counts[name])(row)) });

const COLUMNS = [
  { key: "name", title: "Study", width: 10, grow: true, header: true,
    cell: (row) => link(`/studies/${part(row.place)}/${part(row.name)}`, {}, row.name) },
  { key: "state", title: "State", width: 8.5, value: stateOf, cell: stateCell,
    stamp: (row) => stateOf(row) + row.error },
  { key: "world", title: "World, learner", width: 10.5, value: about },
  { key: "done", title: "Trials", width: 9, number: true, descending: true, value: known(ended), cell: trials,
    stamp: trials },
  counted("running", "Running"), counted("failed", "Failed"), counted("pruned", "Pruned"),
  { key: "best_value", title: "Best", width: 5.5, number: true, descending: true,
    cell: (row) => number(row.best_value) },
  { key: "verified_value", title: "Held-out", hint: "value of the best verified trial with held-out seeds", width: 5.5,
    number: true, descending: true, cell: (row) => number(row.verified_value) },
  { key: "trials_per_hour", title: "An hour", hint: "trials an hour", width: 5.5, number: true, descending: true,
    cell: (row) => number(row.trials_per_hour) },
  { key: "eta_seconds", title: "ETA", width: 7, number: true, cell: (row) => duration(row.eta_seconds) },
  { key: "updated", title: "Changed", hint: "when a trial began or ended last", width: 7, number: true,
    descending: true, cell: ago, stamp: ago },
];

function about(row) {
  return [row.world, row.learner].filter(Boolean).join(" · ");
}

/** How long ago the last trial began or ended, in the largest unit. */
function ago(row) {
  if (row.updated === null || row.updated === undefined) return "–";
  const seconds = Math.max(0, Date.now() / 1000 - row.updated);
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([length]) => seconds >= length) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

function trials(row) {
  if (ended(row) === null) return "–";
  return row.n_trials && row.n_trials !== ended(row) ? `${count(ended(row))} of ${count(row.n_trials)}`
    : count(ended(row));
}

function ended(row) {
  return row.counts ? row.counts.finished + row.counts.failed + row.counts.pruned : null;
}

function stateOf(row) {
  return row.error ? "unreadable" : row.unread ? "open it to read it" : row.state;
}

function stateCell(row) {
  return h("span", { class: `state ${stateOf(row).replace(/ /g, "-")}`, title: row.error }, stateOf(row));
}

function nothing() {
  return h("div", { class: "empty" }, h("h2", {}, "No study yet"),
    h("p", {}, "A search makes one, and its trials appear here as they come:"),
    command("rookery search CartPole-v1 --study-name demo"),
    h("p", {}, "Studies are in the folder studies/. Show it beside the runs:"),
    command("rookery dashboard --runs-dir runs --runs-dir studies"));
}
