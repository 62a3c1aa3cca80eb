// A page with one table of what is in the folders, read again and again.

import { get } from "./api.js";
import { h, put } from "./dom.js";
import { poll } from "./stream.js";
import { dataTable } from "./table.js";

/** Show the rows that `path` answers under `key`; `nothing()` is shown while there are none. Returns what ends it. */
export async function listing(container, signal, { title, path, key, columns, nothing }) {
  document.title = `${title} · rookery`;
  const box = h("div"), sort = { key: "updated", descending: true };
  put(container, h("h1", {}, title), box);
  let table = null;

  async function refresh() {
    const rows = (await get(path, {}, signal))[key];
    if (!rows.length) {
      table?.destroy();
      table = null;
      put(box, nothing());
      return 3000;
    }
    if (!table) put(box);
    table ??= dataTable(box, { caption: title, columns, key: (row) => row.id, sort, rowHeight: 44 });
    table.update(rows);
    return rows.some((row) => row.state === "running") ? 2000 : 5000;
  }

  const end = poll(signal, refresh, await refresh());
  return () => { end(); table?.destroy(); };
}
