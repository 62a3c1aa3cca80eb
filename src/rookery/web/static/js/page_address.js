// Where the page is. A report is one file, whose views are told apart by what follows the #.

const parts = document.documentElement.dataset.report?.split(" ");
export const isReport = parts !== undefined;
/** Whether a view can be shown; a report has those of runs, and some that only some runs have. */
export const isShown = (path) => !isReport || path === "/" || path === "/compare" || parts.includes(path.slice(1));

/** The path and the query of the view. */
export const here = () => (isReport ? new URL(location.hash.slice(1) || "/", "http://report") : location);

/** Change the address, without loading anything. */
export function visit(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](history.state, "", isReport ? `#${href}` : href);
}
