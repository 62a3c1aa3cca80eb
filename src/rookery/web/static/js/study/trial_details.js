// What is asked for only of the trials in sight: their runs, or why there are none.

import { get } from "../api.js";
import { h, link } from "../dom.js";
import { runPath } from "../run_id.js";

const WAIT_MS = 120, AT_ONCE = 100;

/** Details of trials by their numbers; `redraw` is called when some have come. Running trials are asked for again. */
export function trialDetails(path, signal, redraw) {
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
