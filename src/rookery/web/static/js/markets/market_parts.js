// Pieces of the market pages: figures, tables, links, and commands to copy.

import { part } from "../api.js";
import { h, headed, link, scrolled } from "../dom.js";

/** The address of a page: marketPath("paper", "runs", "first"). */
const marketPath = (kind, place, name) => `/markets/${kind}/${part(place)}/${part(name)}`;

export const marketLink = (kind, { place, name }, query, ...children) =>
  link(marketPath(kind, place, name) + query, {}, ...children);

/** A table: heads are texts, those of numbers [text]; each row is its cells, of which the first names it. */
export function plainTable(label, heads, rows) {
  const classes = heads.map((head) => Array.isArray(head) && "number");
  const line = (cells) => h("tr", {}, cells.map((cell, i) => (i === 0
    ? h("th", { scope: "row" }, cell)
    : h("td", { class: classes[i] }, cell))));
  const titles = heads.map((head, i) => [head, classes[i]].flat());
  return scrolled(label, headed(titles, rows.map(line), { caption: label }), "scroll figures-table");
}

/** Sentences, each once. */
export const notes = (texts, cls = "note") => [...new Set(texts)].map((text) => h("p", { class: cls }, text));
