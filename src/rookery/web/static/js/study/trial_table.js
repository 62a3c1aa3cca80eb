// The trials as a table: sorted, filtered by state and number, each with links to its runs.

import { get, runPath } from "../api.js";
import { h, link, put } from "../dom.js";
import { scale } from "./dot_plot.js";
import { count, duration, number } from "../format.js";
import { dataTable } from "../table.js";

const whenIdle = globalThis.requestIdleCallback ?? setTimeout; // Safari has no such callback
const MOST_PARAMS = 24, STATES = ["all", "finished", "running", "pruned", "failed", "waiting"];

/** The table in `container` for the study at `path` of the API: {set(store, study), reveal(trial), destroy()}. */
export function trialTable(container, path, signal) {
  const states = h("select", { "aria-label": "State of the trials", onchange: fill },
    STATES.map((name) => h("option", { value: name }, name === "all" ? "All states" : name)));
  const wanted = h("input", {
    type: "search", inputmode: "numeric", placeholder: "Trial number", "aria-label": "Number of a trial", size: 12,
    oninput: fill,
  });
  const said = h("span", { class: "muted small", role: "status" });
  const box = h("div");
  container.append(h("div", { class: "row table-tools" }, states, wanted, said), box);
  let given = null, table = null, names = "", rows = [];
  const details = trialDetails(path, signal, () => table?.refresh());

  /** The table as it is now: made when nothing else is to be done, or somebody chooses what it shows. */
  function draw() {
    const { store, study } = given;
    if (rows.length !== store.length) rows = Array.from(store.number.keys());
    const now = [store.values.length, study.verified.length > 0, ...store.space.map(({ name }) => name)].join("\n");
    if (now !== names) make(now);
    details.forget(store);
    fill();
  }

  function make(now) {
    names = now;
    table?.destroy();
    put(box);
    table = dataTable(box, {
      caption: "Trials", columns: columnsOf(() => given, details), key: (i) => i, rowHeight: 38,
      sort: { key: "number", descending: true }, none: "No trial is in this state.",
    });
  }

  function fill() {
    if (!table) {
      if (given) draw();
      return;
    }
    const { store } = given, text = wanted.value.trim(), code = store.states.indexOf(states.value);
    const fits = (i) => (code < 0 || store.state[i] === code) && (!text || String(store.number[i]).startsWith(text));
    const shown = code < 0 && !text ? rows : rows.filter(fits), all = `${count(rows.length)} trials`;
    said.textContent = shown.length === rows.length ? all : `${count(shown.length)} of ${all}`;
    table.set(shown);
  }

  /** Show the trial of this number: a click on its dot. */
  function reveal(trial) {
    states.value = "all";
    wanted.value = String(trial);
    fill();
    container.scrollIntoView({ block: "nearest" });
  }

  return {
    reveal,
    set(store, study) {
      given = { store, study };
      if (table) draw();
      else whenIdle(() => { if (!signal.aborted) draw(); });
    },
    destroy() { details.end(); table?.destroy(); },
  };
}

/** `now` gives the store and the study as they are when a cell is drawn. */
function columnsOf(now, details) {
  const { store, study } = now(), number = (i) => now().store.number[i];
  return [
    { key: "number", title: "Trial", width: 5, number: true, descending: true, value: number, header: true },
    stateColumn(now),
    ...store.values.map((_, k) => valueColumn(k, store.values.length > 1, now)),
    ...(study.verified.length ? [verifiedColumn(now)] : []),
    figure("took", "Time", (i) => now().store.end[i] - now().store.start[i], duration),
    {
      key: "runs", title: "Runs", width: 13, sortable: false, stamp: (i) => details.stamp(number(i)),
      cell: (i) => details.cell(number(i)),
    },
    ...store.space.slice(0, MOST_PARAMS).map((param) => paramColumn(param, now)),
  ];
}

function stateColumn(now) {
  const value = (i) => now().store.states[now().store.state[i]];
  const cell = (i) => h("span", { class: `state ${value(i)}` }, value(i));
  return { key: "state", title: "State", width: 7, value, cell };
}

/** A column of numbers, as `text` writes them. */
function figure(key, title, value, text, hint = undefined) {
  return { key, title, hint, width: 7, number: true, descending: true, value, cell: (i) => text(value(i)) };
}

function valueColumn(k, several, now) {
  return figure(`value ${k}`, several ? `Value ${k + 1}` : "Value", (i) => now().store.values[k][i], number);
}

function verifiedColumn(now) {
  const value = (i) => now().study.verified.find((one) => one.trial === now().store.number[i])?.value ?? null;
  return figure("verified", "Held-out", value, number, "value with held-out seeds");
}

function paramColumn({ name, choices }, now) {
  const text = scale({ low: 0, high: 1, choices }).text, value = (i) => now().store.params[name]?.[i] ?? NaN;
  return {
    key: `param ${name}`, title: name.split(".").at(-1), hint: name, width: 9, number: !choices, value,
    cell: (i) => (Number.isNaN(value(i)) ? "" : text(value(i))),
  };
}

// What is requested only of the trials in sight: their runs, or why there are none.

const WAIT_MS = 120, AT_ONCE = 100;

/** Details of trials by their numbers; `redraw` is called when some have come. Running trials are requested again. */
function trialDetails(path, signal, redraw) {
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
    } catch {
      return; // the next look at these rows asks again
    }
    redraw();
  }

  const isOpen = (store, number) => ["running", "waiting"].includes(store.states[store.state[store.placeOf(number)]]);

  return {
    /** Tells whether the cell of a trial has changed. */
    stamp(number) { want(number); return found.get(number) ?? "unknown"; },
    cell: (number) => runLinks(found.get(number)),
    forget(store) {
      for (const [number, one] of found) if (isOpen(store, number) || one.runs) found.delete(number);
    },
    end() { clearTimeout(timer); },
  };
}

/** Links to the runs of a trial, or why there are none. */
function runLinks(one) {
  if (!one) return "";
  const ended = one.parts.filter(({ run }) => run).map(({ name, run }) => [name, run]);
  const running = (one.runs ?? []).map((run) => [run.split("-").slice(-2).join("-"), run]);
  const links = [...ended, ...running].map(([name, run]) => [link(runPath("/runs", run), {}, name), " "]);
  if (links.length) return h("span", { title: one.reason }, links);
  const none = one.parts.length ? "deleted" : "–";
  return h("span", { title: one.reason, class: "muted" }, one.reason ?? none);
}
