// All runs as the server knows them, kept up to date by its stream.

import { get } from "../api.js";
import { follow } from "../stream.js";

const PAUSE_MS = 200; // between two drawings, however often news come

const SILENT_MS = 10000; // until a folder that does not answer is requested again

/**
 * `changed(rows)` is called with all rows after news. Returns {rows(), silent(), find(id), put(row), end()}: `silent`
 * names the folders that do not answer, whose runs are as they were last seen.
 */
export async function liveRows(changed, signal) {
  const known = new Map();
  const { runs, cursor, silent: first = [] } = await get("/api/runs", {}, signal);
  for (const row of runs) known.set(row.id, row);
  let timer = 0, all = [...known.values()], silent = first;

  function news({ rows = [], gone = [], all: everything = false }) {
    if (everything) known.clear();
    for (const id of gone) known.delete(id);
    for (const row of rows) known.set(row.id, row);
    timer ||= setTimeout(tell, PAUSE_MS);
  }

  function tell() {
    timer = 0;
    all = [...known.values()];
    changed(all);
  }

  async function askSilent() {
    const found = await get("/api/runs", {}, signal).catch(() => ({ silent }));
    const isNew = String(found.silent) !== String(silent);
    silent = found.silent;
    if (isNew) tell();
    again = silent.length ? setTimeout(askSilent, SILENT_MS) : 0;
  }

  let again = silent.length ? setTimeout(askSilent, SILENT_MS) : 0;
  const stop = follow(`/api/stream?last_event_id=${encodeURIComponent(cursor ?? "")}`, { rows: news });
  return {
    rows: () => all,
    silent: () => silent,
    find: (id) => known.get(id),
    put(row) { news({ rows: [row] }); },
    end() { clearTimeout(timer); clearTimeout(again); stop(); },
  };
}
