// The folds of a walk-forward test: laid over each other, and as a table.

import { part } from "../api.js";
import { colour, dash } from "../chart.js";
import { h, link } from "../dom.js";
import { count, number } from "../format.js";
import { AccountBoard, worthPanel } from "./account_board.js";
import { gain, money, ratio, share } from "./market_format.js";
import { plainTable } from "./market_parts.js";

/** Return and drawdown of every fold since its first bar. Returns the board. */
export function foldChart(place, path, folds) {
  const board = new AccountBoard(path, { axis: "elapsed" }), grid = h("div", { class: "grid" });
  const look = (i) => ({ colour: colour(i), dash: dash(i) });
  const curves = folds.map((fold, i) => [fold, "agent", fold.replace("fold-", "Fold "), look(i)]);
  place.append(grid);
  const drawdowns = worthPanel("Drawdown of each fold", "drawdown", curves, { yText: share });
  for (const panel of [worthPanel("Return of each fold", "return", curves), drawdowns]) {
    grid.append(panel.element);
    board.add(panel);
  }
  return board;
}

const HEADS = [
  "Fold", "Tested on, UTC", ["Bars"], ["Return"], ["Hold"], ["Sharpe"], ["Of hold"], ["Sortino"], ["Volatility"],
  ["Drawdown"], ["Of hold"], ["Trades"], ["Turnover"], ["Costs"],
];

/** The figures of each fold, and how many of them beat holding. */
export function foldTable({ by_fold: folds, fold_runs: runs, place }) {
  const rows = folds.map((row, i) => {
    const { agent = {}, hold = {} } = row;
    return [
      foldName(row, runs[i], place), `${row.start ?? ""} – ${row.end ?? ""}`, count(row.bars),
      gain(agent.total_return), gain(hold.total_return), ratio(agent.sharpe), ratio(hold.sharpe), ratio(agent.sortino),
      share(agent.volatility), share(agent.max_drawdown), share(hold.max_drawdown), count(row.trades),
      number(row.turnover), money(row.costs?.total),
    ];
  });
  const better = folds.filter(({ agent, hold }) => agent?.sharpe > hold?.sharpe).length;
  const said = `The Sharpe ratio is above that of holding in ${better} of ${folds.length} folds.`;
  const note = h("p", { class: "small muted" }, `${said} Ratios and volatility are a year's.`);
  return [plainTable("Folds", HEADS, rows), note];
}

/** The name of a fold, which leads to the run that was trained for it. */
function foldName({ fold }, run, place) {
  const name = `Fold ${fold}`;
  return run ? link(`/runs/${part(place)}/${part(run)}`, { title: `The run ${run}` }, name) : name;
}
