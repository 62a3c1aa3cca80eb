// All runs as the server knows them, kept up to date by its stream.

import { get } from "../api.js";
import { follow } from "../stream.js";

const PAUSE_MS = 200; // between two drawings, however often news come

/** `changed(rows)` is called with all rows after news. Returns {rows(), find(id), put(row), end()}. */
export async function liveRows(changed, signal) {
  const known = new Map();
  const { runs, cursor } = await get("/api/runs", {}, signal);
  for (const row of runs) known.set(row.id, row);
  let timer = 0, all = [...known.values()];

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

  const stop = follow(`/api/stream?last_event_id=${encodeURIComponent(cursor ?? "")}`, { rows: news });
  return {
    rows: () => all,
    find: (id) => known.get(id),
    put(row) { news({ rows: [row] }); },
    end() { clearTimeout(timer); stop(); },
  };
}
