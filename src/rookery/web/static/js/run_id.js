// How a run is named in addresses: PLACE/NAME, where neither contains a slash.

import { part } from "./api.js";

/** "runs/a" -> ["runs", "a"]. */
export function split(id) {
  const at = id.indexOf("/");
  return [id.slice(0, at), id.slice(at + 1)];
}

/** The page of a run, or what the API says of it: runPath("/api/runs", id, "/metrics"). */
export const runPath = (before, id, after = "") => `${before}/${split(id).map(part).join("/")}${after}`;

/** Several runs in one word of a query, divided by commas; those in names are written otherwise. */
export const idList = (ids) => ids.map((id) => id.replaceAll("%", "%25").replaceAll(",", "%2C")).join(",");
