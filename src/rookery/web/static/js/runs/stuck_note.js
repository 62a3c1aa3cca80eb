// Above the table: which running runs do not get on, and why.

import { h, link, put } from "../dom.js";
import { runPath } from "../run_id.js";

const MOST = 2;

/** `all()` shows every run that is stuck. Returns {element, update(rows)}. */
export function stuckNote(all) {
  const element = h("div", { class: "note warning stuck", hidden: true });
  let told = "";
  return {
    element,
    update(rows) {
      const stuck = rows.filter((row) => row.stuck), words = JSON.stringify(stuck.map((row) => [row.id, row.stuck]));
      if (words === told) return;
      told = words;
      element.hidden = stuck.length === 0;
      const more = stuck.length > MOST && h("button", { type: "button", class: "quiet", onclick: all }, `All ${stuck.length} that are stuck`);
      put(element, stuck.slice(0, MOST).map((row) => h("div", {}, link(runPath("/runs", row.id), {}, row.name), `: ${row.stuck}`)), more);
    },
  };
}
