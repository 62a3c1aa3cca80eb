// What there is of markets in the folders that are shown: backtests, registries, paper accounts.

import { get } from "../api.js";
import { command, h, put } from "../dom.js";
import { count, moment as lately, utc } from "../format.js";
import { gain, money, ratio, share, stateClass } from "../markets/market_format.js";
import { marketLink } from "../markets/market_parts.js";
import { moment } from "../markets/registry_views.js";
import { poll } from "../stream.js";
import { dataTable } from "../table.js";

export async function show(container, { signal }) {
  document.title = "Markets · rookery";
  const boxes = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, h("section", { class: "market-list" })]));
  const empty = h("div"), tables = {};
  put(container, h("h1", {}, "Markets"), empty, Object.values(boxes));

  async function refresh() {
    const lists = await get("/api/markets", {}, signal), isEmpty = Object.values(lists).every((rows) => !rows.length);
    put(empty, isEmpty && nothing());
    for (const [kind, about] of Object.entries(KINDS)) {
      boxes[kind].hidden = !lists[kind].length;
      if (!lists[kind].length) continue;
      tables[kind] ??= listTable(boxes[kind], about);
      tables[kind].update(lists[kind]);
    }
    container.dataset.complete = "true";
    return lists.papers.some((row) => row.state === "running") ? 1500 : 4000;
  }

  const end = poll(signal, refresh, await refresh());
  return () => {
    end();
    for (const table of Object.values(tables)) table.destroy();
    delete container.dataset.complete;
  };
}

function listTable(box, { title, columns, sort }) {
  box.append(h("h2", {}, title));
  return dataTable(box, { caption: title, columns, sort, key: (row) => row.id, rowHeight: 44 });
}

const nameColumn = (title, kind) => ({
  key: "name", title, width: 12, grow: true, header: true, stamp: (row) => row.name + problem(row),
  cell: (row) => h("span", {}, marketLink(kind, row, "", row.name), problem(row) && trouble(problem(row))),
});
const trouble = (sentence) => h("span", { class: "bad small", title: sentence }, ` ${sentence}`);
const problem = (row) => row.error ?? row.problem ?? "";
const numberColumn = (key, title, text, hint) => (
  { key, title, hint, width: 6, number: true, descending: true, cell: (row) => text(row[key]) });
const symbols = { key: "symbols", title: "Symbols", width: 9, value: (row) => row.symbols?.join(", ") };

const BACKTESTS = [
  nameColumn("Backtest", "backtest"), { key: "world", title: "World", width: 5.5 }, symbols,
  { key: "split", title: "Bars", width: 7 }, numberColumn("agent_total_return", "Return", gain),
  numberColumn("hold_total_return", "Hold", gain, "return of buying and holding"),
  numberColumn("agent_sharpe", "Sharpe", ratio, "Sharpe ratio a year"),
  numberColumn("hold_sharpe", "Of hold", ratio, "Sharpe ratio a year of buying and holding"),
  numberColumn("agent_max_drawdown", "Drawdown", share, "the largest one"),
  { ...numberColumn("folds", "Folds", count), width: 4.5 }, { ...numberColumn("written", "Written", lately), width: 8 },
];
const REGISTRIES = [
  nameColumn("Registry", "registry"), numberColumn("versions", "Versions", count),
  ...["champion", "challenger", "previous"].map((alias) => ({
    key: alias, title: alias[0].toUpperCase() + alias.slice(1), width: 7, number: true,
    value: (row) => row.aliases?.[alias], cell: (row) => count(row.aliases?.[alias] ?? null),
  })),
  { key: "what", title: "Last change", width: 8 },
  { key: "changed", title: "When", width: 11, descending: true, cell: (row) => moment(row.changed) },
];
const PAPERS = [
  nameColumn("Paper account", "paper"),
  { key: "state", title: "State", width: 13, cell: stateCell },
  symbols, { key: "data", title: "Bars from", width: 9 }, numberColumn("bars", "Bars", count),
  numberColumn("equity", "Equity", money), numberColumn("return", "Return", gain),
  { ...numberColumn("last_bar", "Last bar, UTC", utc), width: 10 },
];

const KINDS = {
  papers: { title: "Paper accounts", columns: PAPERS, sort: { key: "last_bar", descending: true } },
  registries: { title: "Registries", columns: REGISTRIES, sort: { key: "changed", descending: true } },
  backtests: { title: "Backtests", columns: BACKTESTS, sort: { key: "written", descending: true } },
};

function stateCell({ state }) { return h("span", { class: `state ${stateClass(state)}` }, state); }

function nothing() {
  return h("div", { class: "empty" }, h("h2", {}, "Nothing of a market yet"),
    h("p", {}, "A run of a market world ends with a backtest, which appears here:"), command("rookery train crypto"),
    h("p", {}, "A registry and its paper account are shown if their folder is among those of the dashboard:"),
    command("rookery dashboard --runs-dir runs --runs-dir agents"));
}
