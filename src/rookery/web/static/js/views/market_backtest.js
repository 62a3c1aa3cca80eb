// A backtest: what the account did on bars that the agent has not seen, in all and in each fold.

import { addressState } from "../address_state.js";
import { get, part } from "../api.js";
import { card, h, put } from "../dom.js";
import { accountBoard, accountPanels } from "../markets/account_board.js";
import { assetTable, figureTable, foldChart, foldTable, periodTable, reportHead } from "../markets/backtest_tables.js";
import { notes } from "../markets/market_parts.js";
import { poll } from "../stream.js";

const AGAIN_MS = 4000;

export async function show(container, { params: { place, name }, query, signal }) {
  document.title = `${name} · rookery`;
  const path = `/api/markets/${part(place)}/${part(name)}`, version = query.get("version");
  const whole = version ? `version-${version}` : "report";
  const address = addressState({ version: "", account: whole });
  let report = await get(`${path}/report`, { version }, signal), end = draw();

  function draw() {
    const parts = layout(container, report, whole, version), chosen = report.accounts.includes(address.state.account);
    let board = boardOf(parts.charts, path, chosen ? address.state.account : whole, report);
    const pick = (account) => {
      address.change({ account });
      board?.close();
      board = boardOf(parts.charts, path, account, report);
      parts.charts.scrollIntoView({ block: "nearest" });
    };
    const folds = report.accounts.filter((account) => account.startsWith("fold-"));
    if (folds.length) parts.picker.append(accountPicker(report, whole, address.state.account, pick));
    const overlay = folds.length ? foldChart(parts.overlay, path, folds) : null;
    container.dataset.complete = "true";
    return () => { board?.close(); overlay?.close(); };
  }

  const stop = poll(signal, async () => {
    const next = await get(`${path}/report`, { version }, signal);
    if (next.written !== report.written || next.accounts.length !== report.accounts.length) {
      end();
      report = next;
      end = draw();
    }
    return AGAIN_MS;
  }, AGAIN_MS);
  return () => { stop(); end(); delete container.dataset.complete; };
}

function layout(container, report, whole, version) {
  const parts = { picker: h("div", { class: "row" }), charts: h("div", { class: "board" }), overlay: h("div") };
  const none = !report.accounts.includes(whole) && report.problem;
  put(container, reportHead(report, version),
    none ? notes([report.problem], "note warning") : [parts.picker, parts.charts],
    report.by_fold.length > 0 && card("Folds", parts.overlay, foldTable(report)),
    h("div", { class: "market-pair" }, figureTable(report), assetTable(report)), periodTable(report));
  return parts;
}

function boardOf(place, path, account, report) {
  put(place);
  if (!report.accounts.includes(account)) return null;
  return accountBoard(place, path, accountPanels(account, ["agent", "hold", "equal_weight"], report.symbols));
}

/** Which account the charts show. */
function accountPicker(report, whole, chosen, pick) {
  const title = (account) => (account === whole ? "All folds as one account" : account.replace("fold-", "Fold "));
  const select = h("select", { onchange: () => pick(select.value) },
    report.accounts.map((account) => h("option", { value: account, selected: account === chosen }, title(account))));
  return h("label", { class: "account-picker" }, "Charts of", select);
}
