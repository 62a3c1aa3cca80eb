// Pieces of the market pages: figures, tables, links, and commands to copy.

import { part } from "../api.js";
import { h, link } from "../dom.js";

/** The address of a page: marketPath("paper", "runs", "first"). */
const marketPath = (kind, place, name) => `/markets/${kind}/${part(place)}/${part(name)}`;

export const marketLink = (kind, { place, name }, query, ...children) =>
  link(marketPath(kind, place, name) + query, {}, ...children);

/** A table: heads are texts, those of numbers [text]; each row is its cells, of which the first names it. */
export function plainTable(label, heads, rows) {
  const isNumber = heads.map(Array.isArray);
  const head = heads.map((text, i) => h("th", { scope: "col", class: isNumber[i] && "number" }, text));
  const line = (cells) => h("tr", {}, cells.map((cell, i) => (i === 0
    ? h("th", { scope: "row" }, cell)
    : h("td", { class: isNumber[i] && "number" }, cell))));
  return h("div", { class: "scroll figures-table", tabindex: 0, role: "region", "aria-label": label },
    h("table", {}, h("caption", { class: "visually-hidden" }, label), h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, rows.map(line))));
}

/** Sentences, each once. */
export const notes = (texts, cls = "note") => [...new Set(texts)].map((text) => h("p", { class: cls }, text));
