// Which runs are shown: by words, states, worlds, tags and folders.

import { stateOf } from "./run_columns.js";

/** The filters of an address without any. */
export const NO_FILTERS = { q: "", state: [], world: [], learner: [], tag: [], place: [], hidden: false };

/** The rows that all filters let through. Each word searched for must be in the name, world, learner, tags or group. */
export function filtered(rows, filters) {
  const words = filters.q.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (chosen, value) => chosen.length === 0 || chosen.includes(value);
  return rows.filter((row) =>
    (filters.hidden || !row.hidden) && fits(filters.state, stateOf(row)) && fits(filters.world, row.world)
    && fits(filters.learner, row.learner) && fits(filters.place, row.place)
    && (filters.tag.length === 0 || filters.tag.some((tag) => (row.tags ?? []).includes(tag)))
    && (words.length === 0 || hasWords(row, words)));
}

function hasWords(row, words) {
  const text = [row.name, row.world, row.learner, row.place, row.group, ...(row.tags ?? [])].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

/** How many rows have each value: [[value, count], ...], the most frequent first. */
export function tally(rows, values) {
  const found = new Map();
  for (const row of rows) for (const value of values(row)) if (value) found.set(value, (found.get(value) ?? 0) + 1);
  return [...found].sort(([a, m], [b, n]) => n - m || a.localeCompare(b));
}

export const isFiltered = (filters) =>
  Object.entries(NO_FILTERS).some(([name, none]) => name !== "hidden" && String(filters[name]) !== String(none));
