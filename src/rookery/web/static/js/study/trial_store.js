// The trials of a study as columns in the page: all of them once, then only what is new.

import { address, answer } from "../api.js";

/**
 * A store of the trials at an address of the API. Columns are typed arrays, in which NaN is unknown; `space` says what
 * may be chosen for each parameter. `ask` is replaced in tests of what it does.
 */
export function trialStore(path, signal, ask = getPacked) {
  const trials = (query) => ask(`${path}/trials`, { ...query, format: "packed" }, signal);
  let cursor = "", places = new Map(), comparable = null;
  const store = {
    states: [], origin: 0, number: new Int32Array(), state: new Int8Array(), start: new Float64Array(),
    end: new Float64Array(), values: [], params: {}, space: [],
    /** Ask for the results of all trials, which are there before their parameters are. */
    async readResults() { replace(await trials({ columns: "results" })); },
    async readParams() { takeParams(await trials({ columns: "params" })); },
    /** Ask for what is new; true if anything is. */
    async refresh() {
      const news = await trials({ after: cursor });
      if (news.all) replace(news);
      else merge(news);
      return news.all || news.number.length > 0;
    },
    get length() { return store.number.length; },
    /** Places of the trials that finished with a number for every objective. */
    get comparable() {
      comparable ??= findComparable(store);
      return comparable;
    },
    placeOf: (number) => places.get(number),
  };

  function replace(news) {
    const { states, origin, number, state, start, end, values } = news;
    Object.assign(store, { states, origin, number, state, start, end, values, params: {} });
    cursor = news.cursor;
    comparable = null;
    places = new Map();
    for (let place = 0; place < number.length; place += 1) places.set(number[place], place);
    if (news.params) takeParams(news);
  }

  function merge(news) {
    cursor = news.cursor;
    if (!news.number.length) return;
    comparable = null;
    for (const number of news.number) if (!places.has(number)) places.set(number, places.size);
    const shift = news.origin - store.origin; // an earlier trial may have become known
    if (shift) for (const name of ["start", "end"]) store[name] = store[name].map((time) => time - shift);
    store.origin = news.origin;
    const at = placesIn(news);
    for (const name of ["number", "state", "start", "end"]) store[name] = merged(store[name], news[name], at);
    store.values = store.values.map((column, k) => merged(column, news.values[k], at));
    takeParams(news);
  }

  /** Parameters of trials that are known; of others, the next look at the trials brings them. */
  function takeParams(news) {
    if (news.cursor.split("-")[0] !== cursor.split("-")[0]) return; // of another study that took the name
    const at = placesIn(news);
    store.space = news.space;
    for (const [name, column] of Object.entries(news.params)) {
      store.params[name] = merged(store.params[name] ?? new Float32Array(), column, at);
    }
  }

  const placesIn = (news) => news.number.map((number) => places.get(number) ?? -1);

  /** A column with new values at these places; -1 is nowhere. */
  function merged(column, values, at) {
    const next = column.length === places.size ? column : grown(column, places.size);
    for (let k = 0; k < at.length; k += 1) if (at[k] >= 0) next[at[k]] = values[k];
    return next;
  }

  return store;
}

function grown(column, length) {
  const next = new column.constructor(length).fill(NaN);
  next.set(column);
  return next;
}

function findComparable(store) {
  return ofState(store, "finished").filter((i) => store.values.every((column) => Number.isFinite(column[i])));
}

/** Places of the trials in this state. */
export function ofState(store, name) {
  const code = store.states.indexOf(name), found = [];
  for (let i = 0; i < store.length; i += 1) if (store.state[i] === code) found.push(i);
  return found;
}

// Answers whose columns are plain bytes (see study_routes.py): nothing is parsed but the names.

const KINDS = { f4: Float32Array, f8: Float64Array, i4: Int32Array, i1: Int8Array };

/** The answer at a path of the API. */
async function getPacked(path, query = {}, signal = undefined) {
  const response = await fetch(address(path, query), { signal });
  return response.ok ? unpacked(await response.arrayBuffer()) : answer(response);
}

/** The answer in a buffer. Its columns are typed arrays in which NaN is unknown; they share the buffer. */
function unpacked(buffer) {
  const size = new DataView(buffer).getUint32(0, true), begin = 4 + size;
  const text = new TextDecoder().decode(new Uint8Array(buffer, 4, size));
  return JSON.parse(text, (_, value) => {
    const column = value?.$column;
    return Array.isArray(column) ? new KINDS[column[0]](buffer, begin + column[1], column[2]) : value;
  });
}
