// A small curve for a table.

import { svg } from "./dom.js";

/** A small curve of a few values for a table; `label` says what it shows, if nothing beside it does. */
export function spark(values, { width = 96, height = 22, label = null } = {}) {
  const known = values.filter((value) => value !== null && Number.isFinite(value));
  const low = Math.min(...known), span = Math.max(...known) - low || 1;
  const x = (i) => (2 + (i / (known.length - 1)) * (width - 5)).toFixed(1);
  const y = (value) => (height - 3 - ((value - low) / span) * (height - 6)).toFixed(1);
  const named = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  const image = svg("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, ...named });
  if (known.length < 2) return image;
  image.append(svg("polyline", { points: known.map((value, i) => `${x(i)},${y(value)}`).join(" ") }));
  image.append(svg("circle", { cx: x(known.length - 1), cy: y(known.at(-1)), r: 1.8 }));
  return image;
}
