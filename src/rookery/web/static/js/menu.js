// A button that opens a small sheet; Escape and a click elsewhere close it.

import { h, put } from "./dom.js";

let count = 0;

/** `fill()` gives what is in the sheet each time it opens. Returns {element, button, close()}. */
export function menu(title, fill, { left = false } = {}) {
  const sheet = h("div", { class: "sheet", hidden: true, id: `sheet-${++count}` });
  const button = h("button", { type: "button", "aria-expanded": "false", "aria-controls": sheet.id, onclick: toggle },
    title);
  const element = h("div", { class: left ? "menu left" : "menu", onkeydown: closeByEscape }, button, sheet);

  function toggle() { return sheet.hidden ? open() : close(); }

  function open() {
    put(sheet, fill());
    sheet.hidden = false;
    button.setAttribute("aria-expanded", "true");
    sheet.querySelector("input, button, a, select")?.focus();
    document.addEventListener("pointerdown", outside);
  }

  function close() {
    sheet.hidden = true;
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside);
  }

  function closeByEscape(event) {
    if (event.key !== "Escape" || sheet.hidden) return;
    event.stopPropagation();
    close();
    button.focus();
  }

  function outside(event) { if (!element.contains(event.target)) close(); }

  return { element, button, close };
}

/** Boxes to tick for a menu: `options` is [[value, title], ...], `chosen` a list; `change(values)` gets the new one. */
export function ticks(options, chosen, change) {
  return options.map(([value, title]) => h("label", {}, h("input", {
    type: "checkbox", checked: chosen.includes(value), onchange: (event) => {
      const rest = chosen.filter((one) => one !== value);
      chosen = event.target.checked ? [...rest, value] : rest;
      change(chosen);
    },
  }), title));
}
