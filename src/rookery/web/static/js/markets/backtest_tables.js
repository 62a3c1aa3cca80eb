// The head of a backtest's page, and its figures as tables.

import { AccountBoard, worthPanel } from "./account_board.js";
import { part } from "../api.js";
import { colour, dash } from "../chart.js";
import { card, figure, h, link } from "../dom.js";
import { count, number, when } from "../format.js";
import { COST_KINDS, gain, money, ratio, share, STRATEGIES } from "./market_format.js";
import { marketLink, notes, plainTable } from "./market_parts.js";

/** What it is, the first sentence of the report, and its main figures. */
export function reportHead(report, version) {
  const isRun = !version && !report.by_fold.length;
  return h("header", { class: "card market-head" },
    h("div", { class: "row" }, h("h1", {}, version ? `${report.name}, version ${version}` : report.name),
      h("span", { class: "grow" }),
      isRun && link(`/runs/${part(report.place)}/${part(report.name)}`, {}, "Run"),
      version && marketLink("registry", report, "", "Registry"),
      report.paper && marketLink("paper", report, "", "Paper account")),
    h("p", { class: "muted" }, about(report).filter(Boolean).join(" · ")),
    report.verdict && h("p", { class: "verdict" }, report.verdict),
    h("div", { class: "figures" }, boxes(report)), notes(report.notes));
}

function about({ world, data, split, checkpoint, written }) {
  return [
    world, data.symbols?.join(", "), data.timeframe && `bars of ${data.timeframe}`, split && `split ${split}`,
    data.start && `${data.start} to ${data.end} UTC`, checkpoint, `written ${when(written)}`,
  ];
}

function boxes({ agent, hold }) {
  return [
    figure(gain(agent.total_return), `return; hold ${gain(hold.total_return)}`),
    figure(ratio(agent.sharpe), `Sharpe ratio a year; hold ${ratio(hold.sharpe)}`),
    figure(share(agent.max_drawdown), `largest drawdown; hold ${share(hold.max_drawdown)}`),
    figure(money(agent.costs?.total), `costs; ${share(agent.costs_of_initial_equity)} of the first equity`),
    figure(number(agent.turnover), `turnover; ${count(agent.trades)} trades`),
    figure(share(agent.exposure), "mean exposure"),
  ];
}

const FIGURES = [
  ["total_return", "Total return", gain], ["annual_return", "Return a year", gain],
  ["volatility", "Volatility a year", share], ["sharpe", "Sharpe ratio a year", ratio],
  ["sortino", "Sortino ratio a year", ratio], ["calmar", "Calmar ratio", ratio],
  ["max_drawdown", "Largest drawdown", share], ["longest_drawdown_days", "Longest drawdown, days", number],
  ["hit_rate", "Bars with a gain", share], ["final_equity", "Last equity", money],
];

/** The agent beside holding and equal weights, with the intervals of its figures, and the costs by kind. */
export function figureTable({ agent, hold, equal_weight: equal, certainty, costs, annualised_with: year }) {
  const interval = (key, text) => {
    const ends = certainty.intervals?.[key];
    return Array.isArray(ends) ? `${text(ends[0])} to ${text(ends[1])}` : "";
  };
  const rows = FIGURES.map(([key, title, text]) => (
    [title, text(agent[key]), interval(key, text), text(hold[key]), text(equal[key])]));
  const paid = Object.entries(COST_KINDS).map(([kind, title]) => [title, money(agent.costs?.[kind])]);
  const { p_value: p, test } = certainty, sure = typeof p === "number" ? `p = ${number(p)} against hold (${test})` : "";
  const titles = ["", [STRATEGIES.agent], ["95 % interval"], [STRATEGIES.hold], [STRATEGIES.equal_weight]];
  return card("Figures", plainTable("Figures", titles, rows), small([sure, year.how]),
    h("h3", {}, "Costs"), plainTable("Costs", ["", ["Paid"]], [...paid, ["All", money(agent.costs?.total)]]),
    small([costs.name, ...(Array.isArray(costs.rates) ? costs.rates : [])]));
}

const small = (texts) => h("p", { class: "small muted" }, texts.filter(Boolean).join(" · "));

/** What each symbol contributed. */
export function assetTable({ by_asset: rows }) {
  if (!rows.length) return null;
  const heads = ["Symbol", ["Profit"], ["Before costs"], ["Costs"], ["Trades"], ["Exposure"], ["Hold"]];
  return card("By asset", plainTable("By asset", heads, rows.map((row) => [
    row.symbol, money(row.profit), money(row.profit_before_costs), money(row.costs), count(row.trades),
    share(row.exposure), gain(row.hold_return),
  ])));
}

/** Returns by year, month, day or hour: the longest periods of which there are several. */
export function periodTable({ by_period: periods }) {
  const [unit, rows] = Object.entries(periods).find(([, found]) => Array.isArray(found) && found.length) ?? [];
  if (!unit) return null;
  const costs = (row) => Object.values(row.costs ?? {}).reduce((sum, value) => sum + value, 0);
  const cells = rows.toReversed().map((row) => [
    row.period, gain(row.agent), gain(row.hold), share(row.max_drawdown), number(row.turnover), count(row.trades),
    money(costs(row)),
  ]);
  const title = unit[0].toUpperCase() + unit.slice(1);
  const heads = [title, ["Agent"], ["Hold"], ["Drawdown"], ["Turnover"], ["Trades"], ["Costs"]];
  return h("details", { class: "card" }, h("summary", {}, `By ${unit}`), plainTable(`By ${unit}`, heads, cells));
}

// The folds of a walk-forward test: laid over each other, and as a table.

/** Return and drawdown of every fold since its first bar. Returns the board. */
export function foldChart(place, path, folds) {
  const board = new AccountBoard(path, { axis: "elapsed" }), grid = h("div", { class: "grid" });
  const look = (i) => ({ colour: colour(i), dash: dash(i) });
  const curves = folds.map((fold, i) => [fold, "agent", fold.replace("fold-", "Fold "), look(i)]);
  place.append(grid);
  const drawdowns = worthPanel("Drawdown of each fold", "drawdown", curves, { yText: share });
  board.show(grid, [worthPanel("Return of each fold", "return", curves), drawdowns]);
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
