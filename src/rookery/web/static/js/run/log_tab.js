// The log of a run: its last part first, growing at the end.

import { get } from "../api.js";
import { h } from "../dom.js";

const AGAIN_MS = 1000;
const MOST_LETTERS = 500_000;

/** Fill the tab; returns a function that ends it. */
export function logTab(panel, { model }) {
  const text = h("pre", { class: "log", tabindex: 0, role: "log", "aria-label": "Log" });
  const said = h("p", { class: "muted", role: "status" });
  const follow = h("input", { type: "checkbox", checked: true });
  panel.append(h("div", { class: "row" }, h("label", {}, follow, " Follow the end"), said), text);
  let next = null, timer = 0, ended = false;

  async function load() {
    try {
      const found = await get(`${model.path}/log`, { from: next }, model.signal);
      if (ended) return;
      next = found.next;
      if (found.again) text.replaceChildren();  // the run was started again
      if (found.text) show(found.text);
      said.textContent = text.firstChild ? "" : "This run has written no log.";
      if (found.text && !found.end) return load();
    } catch (error) {
      if (!ended) said.textContent = error.message;
    }
    if (!ended) timer = setTimeout(load, AGAIN_MS);
  }

  function show(more) {
    text.append(document.createTextNode(more));
    while (text.childNodes.length > 1 && text.textContent.length > MOST_LETTERS) text.firstChild.remove();
    if (follow.checked) text.scrollTop = text.scrollHeight;
  }

  load();
  return () => { ended = true; clearTimeout(timer); };
}
