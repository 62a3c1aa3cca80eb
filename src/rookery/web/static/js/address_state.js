// The state of a view in the address, so that what is seen can be sent to somebody.

// Where the page is. A report is one file, whose views are told apart by what follows the #.

const parts = document.documentElement.dataset.report?.split(" ");
const isReport = parts !== undefined;
/** Whether a view can be shown; a report has those of runs, and some that only some runs have. */
export const isShown = (path) => !isReport || path === "/" || path === "/compare" || parts.includes(path.slice(1));

const first = document.documentElement.dataset.first ?? "/"; // of a report on one run: that run

/** The path and the query of the view. */
export const here = () => (isReport ? new URL(location.hash.slice(1) || first, "http://report") : location);

/** Change the address, without loading anything. */
export function visit(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](history.state, "", isReport ? `#${href}` : href);
}

const PAUSE_MS = 300; // browsers refuse an address that changes too often

/**
 * The state named by `defaults`: lists, numbers, booleans and texts, read from the address. What equals its default is
 * not in the address. Returns {state, change(values)}; `change` writes the address without a new entry in the history.
 */
export function addressState(defaults) {
  const path = here().pathname, query = new URLSearchParams(here().search), state = {};
  for (const [name, normal] of Object.entries(defaults)) state[name] = read(query, name, normal);
  let last = -Infinity, timer = 0;

  function write() {
    timer = 0;
    last = performance.now();
    if (here().pathname === path) visit(addressOf(path, state, defaults), { replace: true });
  }

  return {
    state,
    change(values) {
      Object.assign(state, values);
      const pause = PAUSE_MS - (performance.now() - last);
      if (pause <= 0) write();
      else if (!timer) timer = setTimeout(write, pause);
    },
  };
}

/** The address of a view in a state; a list is one entry each, so that names may contain commas. */
export function addressOf(path, state, defaults = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (String(value) === String(defaults[name] ?? "")) continue;
    if (Array.isArray(value)) (value.length ? value : [""]).forEach((one) => query.append(name, one));
    else query.set(name, typeof value === "boolean" ? Number(value) : value);
  }
  const words = query.toString().replaceAll("%2F", "/");
  return words ? `${path}?${words}` : path;
}

function read(query, name, normal) {
  if (!query.has(name)) return Array.isArray(normal) ? [...normal] : normal;
  if (Array.isArray(normal)) return query.getAll(name).filter((value) => value !== "");
  const value = query.get(name);
  if (typeof normal === "boolean") return value === "1";
  if (typeof normal === "number") return Number.isFinite(Number(value)) ? Number(value) : normal;
  return value;
}
