// The trials as a table: sorted, filtered by state and number, each with links to its runs.

import { get, part } from "../api.js";
import { h, link, put } from "../dom.js";
import { count, duration, number } from "../format.js";
import { dataTable } from "../table.js";
import { scale } from "./axis_scale.js";

const WAIT_MS = 120, AT_ONCE = 100, MOST_PARAMS = 24;

/** The table in `container` for the study at `path` of the API. Returns {set(store, params, study), destroy()}. */
export function trialTable(container, path, signal) {
  const states = h("select", { "aria-label": "State of the trials", onchange: fill }, ["all", "finished", "running", "pruned", "failed", "waiting"].map((name) => h("option", { value: name }, name === "all" ? "All states" : name)));
  const wanted = h("input", { type: "search", inputmode: "numeric", placeholder: "Trial number", "aria-label": "Number of a trial", oninput: fill, size: 12 });
  const said = h("span", { class: "muted small", role: "status" });
  const box = h("div");
  container.append(h("div", { class: "row table-tools" }, states, wanted, said), box);
  let given = null, table = null, names = "", rows = [];
  const known = detailsOf(path, signal, () => table?.redraw());

  function fill() {
    if (!given) return;
    const { store } = given, text = wanted.value.trim();
    const fits = (i) => (states.value === "all" || store.states[store.state[i]] === states.value) && (!text || String(store.number[i]).startsWith(text));
    const shown = rows.filter(fits);
    said.textContent = shown.length === rows.length ? `${count(rows.length)} trials` : `${count(shown.length)} of ${count(rows.length)} trials`;
    table.set(shown);
  }

  /** Show a trial: a click on its dot. */
  function reveal(place) {
    states.value = "all";
    wanted.value = String(given.store.number[place]);
    fill();
    container.scrollIntoView({ block: "nearest" });
  }

  return {
    reveal,
    set(store, params, study) {
      given = { store, params, study };
      while (rows.length < store.length) rows.push(rows.length);
      rows.length = store.length;
      const now = [store.values.length, ...params.map(({ name }) => name)].join("\n");
      if (now !== names) {
        names = now;
        table?.destroy();
        put(box);
        table = dataTable(box, {
          caption: "Trials", columns: columnsOf(given, () => given, known), key: (i) => i, rowHeight: 38,
          sort: { key: "number", descending: true }, none: "No trial is in this state.",
        });
      }
      known.forget(store);
      fill();
    },
    destroy() { known.end(); table?.destroy(); },
  };
}

function columnsOf({ store, params }, now, known) {
  const verified = (i) => now().study.verified.find((one) => one.trial === now().store.number[i])?.value ?? null;
  const several = store.values.length > 1;
  return [
    { key: "number", title: "Trial", width: 5, number: true, descending: true, value: (i) => now().store.number[i], header: true },
    { key: "state", title: "State", width: 7, value: (i) => stateOf(now(), i), cell: (i) => h("span", { class: `state ${stateOf(now(), i)}` }, stateOf(now(), i)) },
    ...store.values.map((_, k) => ({ key: `value ${k}`, title: several ? `Value ${k + 1}` : "Value", width: 7, number: true, descending: true, value: (i) => now().store.values[k][i], cell: (i) => number(now().store.values[k][i]) })),
    ...(now().study.verified.length ? [{ key: "verified", title: "Held-out", hint: "value with held-out seeds", width: 7, number: true, descending: true, value: verified, cell: (i) => number(verified(i)) }] : []),
    { key: "took", title: "Time", width: 7, number: true, descending: true, value: (i) => took(now().store, i), cell: (i) => duration(took(now().store, i)) },
    { key: "runs", title: "Runs", width: 13, sortable: false, stamp: (i) => known.stamp(now().store.number[i]), cell: (i) => known.cell(now().store.number[i]) },
    ...params.slice(0, MOST_PARAMS).map((param) => paramColumn(param, now)),
  ];
}

function paramColumn(param, now) {
  const text = scale({ low: 0, high: 1, choices: param.choices }).text, value = (i) => now().store.params[param.name]?.[i] ?? null;
  return {
    key: `param ${param.name}`, title: param.name.split(".").at(-1), hint: param.name, width: 9, number: !param.choices, value,
    cell: (i) => (value(i) === null ? "" : text(value(i))),
  };
}

const stateOf = ({ store }, i) => store.states[store.state[i]];
const took = (store, i) => (store.end[i] === null || store.start[i] === null ? null : store.end[i] - store.start[i]);

/** What is asked for only of the rows in sight: runs and reasons. Those of running trials are asked for again. */
function detailsOf(path, signal, redraw) {
  const found = new Map(), asked = new Set();
  let timer = 0;

  function want(number) {
    if (found.has(number)) return;
    asked.add(number);
    timer ||= setTimeout(ask, WAIT_MS);
  }

  async function ask() {
    timer = 0;
    const numbers = [...asked].slice(-AT_ONCE);
    asked.clear();
    try {
      const { trials } = await get(`${path}/trials/details`, { numbers: numbers.join(",") }, signal);
      for (const number of numbers) found.set(number, trials[number] ?? { parts: [] });
      redraw();
    } catch { /* the next look at these rows asks again */ }
  }

  return {
    stamp: (number) => { want(number); return found.get(number) ?? "unknown"; },
    cell: (number) => runLinks(found.get(number)),
    forget(store) { for (const number of found.keys()) if (["running", "waiting"].includes(store.states[store.state[store.placeOf(number)]]) || found.get(number).runs) found.delete(number); },
    end() { clearTimeout(timer); },
  };
}

/** Links to the runs of a trial, or why there are none. */
function runLinks(one) {
  if (!one) return "";
  const runs = [...one.parts.filter(({ run }) => run).map(({ name, run }) => [name, run]), ...(one.runs ?? []).map((run) => [run.split("-").slice(-2).join("-"), run])];
  const links = runs.map(([name, run]) => link(runAddress(run), {}, name));
  if (one.reason) return h("span", { title: one.reason, class: links.length ? "" : "muted" }, between(links), links.length ? "" : one.reason);
  return links.length ? h("span", {}, between(links)) : h("span", { class: "muted" }, one.parts.length ? "deleted" : "–");
}

const between = (links) => links.flatMap((one, k) => (k ? [" ", one] : [one]));

/** The address of a run's page from its id, PLACE/NAME. */
export function runAddress(run) {
  const [place, ...name] = run.split("/");
  return `/runs/${part(place)}/${part(name.join("/"))}`;
}
