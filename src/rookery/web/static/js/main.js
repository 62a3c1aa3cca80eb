// Which view is shown: by the address, so that each can be sent to somebody.

import { h, put } from "./dom.js";
import { here, isShown, visit } from "./address_state.js";
import { onConnection } from "./stream.js";

// A view module exports show(container, {params, query, signal}) and may return a function that ends it.
const VIEWS = [
  ["/", "Runs", "./views/runs.js"],
  ["/compare", "Compare", "./views/compare.js"],
  ["/studies", "Studies", "./views/studies.js"],
  ["/markets", "Markets", "./views/markets.js"],
  ["/leagues", "Leagues", "./views/leagues.js"],
  ["/play", "Play", "./views/play.js"],
  ["/diff", null, "./views/diff.js"],
  ["/runs/:place/:name", null, "./views/run.js"],
  ["/studies/:place/:name", null, "./views/study.js"],
  ["/leagues/:place/:name", null, "./views/league.js"],
  ["/play/:place/:name", null, "./views/play.js"],
  ["/markets/backtest/:place/:name", null, "./views/market_backtest.js"],
  ["/markets/registry/:place/:name", null, "./views/market_registry.js"],
  ["/markets/paper/:place/:name", null, "./views/market_paper.js"],
];

const view = document.getElementById("view");
let end = null, turn = 0, abort = new AbortController();

/** Show another view, as if its link had been followed. */
function go(href, { replace = false } = {}) {
  visit(href, { replace });
  show();
}

async function show() {
  const mine = ++turn;
  abort.abort();
  abort = new AbortController();
  end?.();
  end = null;
  const [path, params] = match(here().pathname);
  mark();
  document.title = "rookery";
  put(view, h("p", { class: "empty" }, "Loading …"));
  try {
    if (!path) throw new Error("there is no such page");
    const module = await import(path);
    if (mine !== turn) return;
    put(view);
    const ended = await module.show(view, { params, query: new URLSearchParams(here().search), signal: abort.signal });
    if (mine === turn) end = ended ?? null;
    else ended?.();
  } catch (error) {
    if (mine === turn && error.name !== "AbortError") put(view,
      h("p", { class: "empty", role: "alert" }, error.message));
  }
}

function match(pathname) {
  const words = pathname.split("/").filter(Boolean);
  for (const [pattern, , module] of VIEWS) {
    const names = pattern.split("/").filter(Boolean), params = {};
    if (names.length !== words.length) continue;
    if (!names.every((name, i) => name.startsWith(":") || name === words[i])) continue;
    names.forEach((name, i) => { if (name.startsWith(":")) params[name.slice(1)] = decodeURIComponent(words[i]); });
    return [module, params];
  }
  return [null, {}];
}

function mark() {
  const first = `/${here().pathname.split("/")[1]}`;
  for (const anchor of document.querySelectorAll("#views a")) {
    const own = anchor.getAttribute("href"), current = own === first || (own === "/" && first === "/runs");
    anchor.toggleAttribute("aria-current", current);
    if (current) anchor.setAttribute("aria-current", "page");
  }
}

function start() {
  const nav = document.getElementById("views");
  const titled = VIEWS.filter(([path, title]) => title && isShown(path));
  for (const [path, title] of titled) nav.append(h("a", { href: path, "data-link": true }, title));
  document.addEventListener("click", (event) => {
    const anchor = event.target.closest?.("a[data-link]");
    if (!anchor || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(anchor.getAttribute("href"));
    view.focus({ preventScroll: true });
    scrollTo(0, 0);
  });
  addEventListener("popstate", show);
  document.getElementById("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
    dispatchEvent(new Event("theme"));
  });
  const connection = document.getElementById("connection");
  onConnection((there) => {
    put(connection, h("span", {}, there ? "live" : "reconnecting …"));
    connection.className = there ? "live" : "lost";
  });
  show();
}

start();
