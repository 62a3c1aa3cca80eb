// Tabs: a row of titles, of which one is shown. Arrow keys, Home and End lead along them.

import { h, put } from "./dom.js";

let count = 0;

/**
 * Tabs in `container`: `pages` is [{id, title, load(), show(panel, loaded)}]. `show` fills the panel when the tab is
 * opened, and may return a function that ends it (also a promise of one); `load`, if there is one, gets what it needs.
 * `selected` is the id of the first one shown, `onSelect(id)` is called after a choice, `label` says what the tabs are
 * of. Returns {select(id), destroy()}.
 */
export function tabs(container, pages, { selected = null, onSelect = null, label }) {
  const own = `tabs-${++count}`, panel = h("div", { role: "tabpanel", id: `${own}-panel`, tabindex: 0 });
  const buttons = pages.map(({ id, title }) => h("button", {
    type: "button", role: "tab", id: `${own}-${id}`, "aria-controls": panel.id, onclick: () => choose(id),
  }, title));
  const bar = h("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: walk }, buttons);
  container.append(bar, panel);
  let current = null, end = null, turn = 0;

  function choose(id) {
    if (id === current) return;
    select(id);
    onSelect?.(id);
  }

  async function select(id) {
    const mine = ++turn, index = Math.max(0, pages.findIndex((page) => page.id === id));
    current = pages[index].id;
    buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", i === index);
      button.tabIndex = i === index ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", buttons[index].id);
    leave();
    put(panel);
    try {
      const loaded = await pages[index].load?.();
      if (mine !== turn) return;
      const ended = await pages[index].show(panel, loaded);
      if (mine === turn) end = ended ?? null;
      else ended?.();
    } catch (error) {
      if (mine === turn) put(panel, h("p", { class: "empty", role: "alert" }, error.message));
    }
  }

  function leave() {
    end?.();
    end = null;
  }

  function walk(event) {
    const at = buttons.indexOf(document.activeElement), last = buttons.length - 1;
    const next = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0,
      End: last }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    buttons[next].focus();
    choose(pages[next].id);
  }

  select(selected);
  return { select, destroy() { turn++; leave(); bar.remove(); panel.remove(); } };
}
