// The charts of accounts: equity, drawdown, positions, costs and turnover over time, zoomed together.

import { get } from "../api.js";
import { colour } from "../chart.js";
import { h } from "../dom.js";
import { duration, short, utc } from "../format.js";
import { filled } from "../run/columns.js";
import { CurveBoard } from "../run/curve_board.js";
import { CurvePanel, zoomBar } from "../run/curve_panel.js";
import { uPlot } from "../uplot.js";
import { COST_KINDS, gain, money, share, STRATEGIES } from "./market_format.js";

const AXES = { time: { label: "time, UTC", text: utc }, elapsed: { label: "since the first bar", text: duration } };
const LOOKS = {
  agent: { colour: colour(0), width: 2 }, hold: { colour: colour(1), dash: [7, 4] },
  equal_weight: { colour: colour(8), dash: [2, 3] }, prices: { colour: colour(1), dash: [7, 4] },
};
const MOST_SYMBOLS = 20;

/** A board over /api/markets/P/N. Curves are named `account:name`. */
export class AccountBoard extends CurveBoard {
  constructor(path, { axis = "time", ...options } = {}) {
    super(path, { axis, ...options });
    this.axes = { [axis]: AXES[axis] };
  }

  ask(names, asked) {
    const split = names.map((name) => [name.slice(0, name.indexOf(":")), name.slice(name.indexOf(":") + 1)]);
    const list = (words) => [...new Set(words)].join(",");
    const accounts = list(split.map(([account]) => account)), curves = list(split.map(([, curve]) => curve));
    return get(`${this.path}/series`, { accounts, names: curves, x: this.axis, ...asked });
  }

  /** Bars have come: curves grow, what is zoomed stays. */
  grown() { this.extent = null; this.refresh(0); }
}

/** A board with these panels in an element, below its bar. */
export function accountBoard(place, path, panels) {
  const board = new AccountBoard(path, { onChange: (one) => one.bar?.draw() }), grid = h("div", { class: "grid" });
  board.bar = zoomBar(board);
  place.append(board.bar.element, grid);
  board.show(grid, panels);
  return board;
}

/** All charts of one account; `strategies` are those whose value is known, `symbols` what it trades. */
export function accountPanels(account, strategies, symbols) {
  return [
    worthPanel("Equity", "equity", strategies.map((one) => [account, one]), { yText: money, height: 280 }),
    worthPanel("Drawdown", "drawdown", strategies.map((one) => [account, one]), { yText: share, yAxis: share }),
    positionPanel(account, symbols), costPanel(account),
    new CurvePanel({
      title: "Turnover, as a multiple of the equity", names: [`${account}:turnover`], series: [{ label: "Turnover" }],
    }),
  ].filter(Boolean);
}

/** Equity, return or drawdown: `curves` is [[account, strategy, label, look], ...]. */
export function worthPanel(title, what, curves, { yText = gain, yAxis = yText, height = 210 } = {}) {
  const names = curves.map(([account, strategy]) => `${account}:${what}/${strategy}`);
  const line = ([, strategy, label, look]) => ({ label: label ?? STRATEGIES[strategy], ...(look ?? LOOKS[strategy]) });
  const series = curves.map(line);
  return new CurvePanel({ title, names, series, yText, yAxis: what === "equity" ? short : yAxis, height });
}

function positionPanel(account, symbols) {
  if (!symbols.length) return null;
  const shown = symbols.slice(0, MOST_SYMBOLS), more = symbols.length - shown.length;
  const names = shown.map((_, i) => `${account}:weight/${i}`), paths = uPlot.paths.stepped({ align: 1 });
  const series = shown.map((symbol) => ({ label: symbol, paths, width: 1.5 }));
  const title = `Positions, as parts of the equity${more > 0 ? ` (${shown.length} of ${symbols.length} symbols)` : ""}`;
  return new CurvePanel({ title, names, series, yText: share, yAxis: share });
}

/** Costs since the first bar, one kind on top of the other. */
function costPanel(account) {
  const kinds = Object.keys(COST_KINDS);
  let own = [];
  const area = (kind, k) => ({
    label: COST_KINDS[kind], colour: colour(k), fill: colour(k), told: (row) => own[k]?.[row],
  });
  return new CurvePanel({
    title: "Costs paid so far", names: kinds.map((kind) => `${account}:cost/${kind}`), yText: money,
    series: kinds.map(area).toReversed(), shape: ([x, ...columns]) => {
      own = columns.map(filled);
      const tops = [];
      own.forEach((column, k) => tops.push(column.map((value, row) => value + (k ? tops[k - 1][row] : 0))));
      return [x, ...tops.toReversed()];
    },
  });
}
