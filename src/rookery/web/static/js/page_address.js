// Where the page is. A report is one file, whose views are told apart by what follows the #.

export const isReport = document.documentElement.dataset.report !== undefined;

/** The path and the query of the view. */
export const here = () => (isReport ? new URL(location.hash.slice(1) || "/", "http://report") : location);

/** Change the address, without loading anything. */
export function visit(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](history.state, "", isReport ? `#${href}` : href);
}
