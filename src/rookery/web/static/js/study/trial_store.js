// The trials of a study as columns in the page: all of them once, then only what is new.

import { get } from "../api.js";

/** A store of the trials at an address of the API; `get` is replaced in tests of what it does. */
export function trialStore(path, signal, ask = get) {
  let cursor = "", places = new Map();
  const store = {
    states: [], origin: 0, number: [], state: [], start: [], end: [], values: [], params: {}, version: 0,
    /** Ask for what is new; true if anything is. */
    async refresh() {
      const news = await ask(`${path}/trials`, { after: cursor }, signal);
      cursor = news.cursor;
      if (news.all) replace(news);
      else if (news.number.length) merge(news);
      else return false;
      store.version += 1;
      return true;
    },
    get length() { return store.number.length; },
    placeOf: (number) => places.get(number),
  };

  function replace(news) {
    const { states, origin, number, state, start, end, values, params } = news;
    Object.assign(store, { states, origin, number, state, start, end, values, params });
    places = new Map(number.map((one, place) => [one, place]));
  }

  function merge(news) {
    const shift = news.origin - store.origin; // an earlier trial may have become known
    if (shift) for (const times of [store.start, store.end]) times.forEach((time, i) => { times[i] = time === null ? null : time - shift; });
    store.origin = news.origin;
    for (const name of Object.keys(news.params)) store.params[name] ??= store.number.map(() => null);
    news.number.forEach((number, k) => take(news, k, number));
  }

  function take(news, k, number) {
    const place = places.get(number) ?? store.number.length;
    places.set(number, place);
    for (const name of ["number", "state", "start", "end"]) store[name][place] = news[name][k];
    store.values.forEach((column, i) => { column[place] = news.values[i]?.[k] ?? null; });
    for (const [name, column] of Object.entries(store.params)) column[place] = news.params[name]?.[k] ?? null;
  }

  return store;
}

/** Places of the trials in this state. */
export function ofState(store, ...names) {
  const codes = new Set(names.map((name) => store.states.indexOf(name))), found = [];
  for (let i = 0; i < store.length; i += 1) if (codes.has(store.state[i])) found.push(i);
  return found;
}

/** Places of the trials that finished with a number for every objective. */
export function comparable(store) {
  return ofState(store, "finished").filter((i) => store.values.every((column) => column[i] !== null));
}
