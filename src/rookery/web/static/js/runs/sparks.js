// Small curves of the runs in sight: asked for together, and again now and then while a run goes on.

import { get } from "../api.js";
import { idList } from "../run_id.js";

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
