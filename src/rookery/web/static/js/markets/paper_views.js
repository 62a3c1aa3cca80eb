// The head of a paper account's page, and its tables.

import { card, figure, h } from "../dom.js";
import { count, duration, number, utc, when } from "../format.js";
import { gain, money, share, stateClass } from "./market_format.js";
import { marketLink, notes, plainTable } from "./market_parts.js";

const MOST_ALERTS = 20, MOST_FILLS = 50;

/** Whether it trades, who, on what, and how it stands. */
export function paperHead(paper) {
  const { name, state, killed, closing, isShadow = paper.account === "shadow" } = paper;
  const other = isShadow ? ["", "Account of the champion"] : ["?account=shadow", "Account of the challenger"];
  return h("header", { class: "card market-head" },
    h("div", { class: "row" }, h("h1", {}, isShadow ? `${name}: shadow account` : `${name} on paper`),
      h("span", { class: `state ${stateClass(state)}` }, state), h("span", { class: "grow" }),
      (paper.shadow || isShadow) && marketLink("paper", paper, ...other)),
    h("p", { class: "muted" }, about(paper).filter(Boolean).join(" · ")),
    killed && h("p", { class: "alert", role: "alert" }, `Stopped by the kill-switch: ${killed.why}`),
    closing && h("p", { class: "note warning" }, `Positions are closed: ${reason(closing)}`),
    h("div", { class: "figures" }, boxes(paper)));
}

const reason = (closing) => (closing.for === "handover" ? `version ${closing.version} takes over` : closing.why);

function about({ agents, version, symbols, timeframe, data }) {
  return [
    agents, version != null && `version ${version}`, symbols.join(", "), timeframe && `bars of ${duration(timeframe)}`,
    data && `from ${data}`,
  ];
}

function boxes(paper) {
  const { delay, largest_delay: largest } = paper;
  const late = delay === null ? "" : `; came after ${duration(delay)}, at most ${duration(largest)}`;
  return [
    figure(money(paper.equity), "equity"), figure(gain(paper.return), "return"),
    figure(share(paper.drawdown), `drawdown; largest ${share(paper.max_drawdown)}`),
    figure(money(paper.costs?.total), "costs"), figure(number(paper.turnover), "turnover"),
    figure(count(paper.bars), paper.missed ? `bars; ${count(paper.missed)} came too late to trade on` : "bars"),
    figure(utc(paper.last_bar), `last bar, UTC${late}`),
    figure(count(paper.fills), `fills; ${count(paper.waiting)} orders wait`),
  ];
}

/** The alerts that were sent, the newest first. */
export function alertList({ alerts }) {
  const line = ({ text, at, alert }) => h("div", { class: "note error" }, h("b", {}, `${alert ?? "alert"}: `), text,
    h("span", { class: "muted small" }, ` ${when(at)}`));
  return alerts.length > 0 && card("Alerts", alerts.slice(0, MOST_ALERTS).map(line));
}

/** A table with a title, or a sentence instead. */
function listed(title, heads, rows, none) {
  return card(title, rows.length ? plainTable(title, heads, rows) : notes([none], "muted"));
}

export function positionTable({ positions }) {
  const rows = Object.entries(positions).map(([symbol, units]) => [symbol, number(units)]);
  return listed("Positions now", ["Symbol", ["Units"]], rows, "Nothing is held.");
}

export function fillTable({ last_fills: fills }) {
  const row = ({ time, symbol, units, price }) => [utc(time), symbol, number(units), number(price)];
  const heads = ["Bar, UTC", "Symbol", ["Units"], ["Price"]];
  return listed("Last fills", heads, fills.slice(0, MOST_FILLS).map(row), "None yet.");
}

export function gapTable({ gaps }) {
  const rows = gaps.map(({ after, until, bars }) => [utc(after), utc(until), count(bars)]);
  const none = "No bar is missing while the market was open.";
  return listed("Gaps in the bars", ["After, UTC", "Until", ["Missing"]], rows, none);
}

/** When trading stopped and continued, and who took over. */
export function stopTable({ stops }) {
  const handover = ({ from, to }) => `version ${to} takes over from ${from}`;
  const why = (stop) => (stop.what === "handover" ? handover(stop) : (stop.why ?? ""));
  const rows = stops.map((stop) => [utc(stop.time), stop.what, why(stop)]);
  return listed("Stops and handovers", ["Bar, UTC", "What", "Why"], rows, "None.");
}
