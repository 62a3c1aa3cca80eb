// Above the table: which folders do not answer, which running runs do not get on, and why.

import { h, link, put } from "../dom.js";
import { runPath } from "../run_id.js";

const MOST = 2;

/** `all()` shows every run that is stuck. Returns {element, update(rows, silent)}. */
export function stuckNote(all) {
  const element = h("div", { class: "note warning stuck", hidden: true });
  let told = "";
  return {
    element,
    update(rows, silent) {
      const stuck = rows.filter((row) => row.stuck);
      const words = JSON.stringify([silent, stuck.map((row) => [row.id, row.stuck])]);
      if (words === told) return;
      told = words;
      element.hidden = stuck.length + silent.length === 0;
      const button = () =>
        h("button", { type: "button", class: "quiet", onclick: all }, `All ${stuck.length} that are stuck`);
      const lines = stuck.slice(0,
        MOST).map((row) => h("div", {}, link(runPath("/runs", row.id), {}, row.name), `: ${row.stuck}`));
      put(element, silent.map(silentLine), lines, stuck.length > MOST && button());
    },
  };
}

const silentLine = (place) => h("div", {},
  `The folder ${place} does not answer: is its drive still there? Its runs are shown as they were last seen.`);
