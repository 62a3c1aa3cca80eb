// A paper account, live: what it is worth, holds and pays, while bars come in.

import { get, part } from "../api.js";
import { colour } from "../chart.js";
import { h, put } from "../dom.js";
import { accountBoard, accountPanels, worthPanel } from "../markets/account_board.js";
import { alertList, fillTable, gapTable, paperHead, positionTable, stopTable } from "../markets/paper_views.js";
import { share } from "../markets/market_format.js";
import { notes } from "../markets/market_parts.js";
import { poll } from "../stream.js";

const RUNNING_MS = 400, QUIET_MS = 2000;
const SHADOW = { colour: colour(3), width: 2 };

export async function show(container, { params: { place, name }, query, signal }) {
  document.title = `${name} on paper · rookery`;
  const path = `/api/markets/${part(place)}/${part(name)}`;
  const account = query.get("account") === "shadow" ? "shadow" : "paper";
  const boxes = Object.fromEntries(["head", "charts", "tables"].map((key) => [key, h("div")]));
  put(container, Object.values(boxes));
  let paper = null, board = null, shape = "";

  async function refresh() {
    const next = await get(`${path}/paper`, { account }, signal), has = paper?.bars;
    const changed = JSON.stringify(next) !== JSON.stringify(paper);
    paper = next;
    if (changed) draw();
    if (board && paper.bars !== has) board.grown();
    container.dataset.bars = paper.bars; // for tests that wait for a bar
    return paper.state === "running" || !paper.complete ? RUNNING_MS : QUIET_MS;
  }

  function draw() {
    put(boxes.head, paperHead(paper), notes([paper.problem].filter(Boolean), "note warning"), alertList(paper));
    const now = JSON.stringify([paper.symbols, paper.shadow, paper.bars > 0]);
    if (now !== shape) {
      shape = now;
      board?.close();
      board = boardOf(boxes.charts, path, account, paper);
    }
    put(boxes.tables, h("div", { class: "market-pair" }, positionTable(paper), stopTable(paper)),
      h("div", { class: "market-pair" }, fillTable(paper), gapTable(paper)));
  }

  const end = poll(signal, refresh, await refresh());
  return () => { end(); board?.close(); delete container.dataset.bars; };
}

/** The charts of the account; with that of the challenger beside it, if there is one. */
function boardOf(place, path, account, paper) {
  put(place);
  if (!paper.bars) return null;
  const box = h("div", { class: "board" });
  put(place, box);
  const panels = accountPanels(account, ["agent", "prices"], paper.symbols);
  if (paper.shadow) panels.splice(0, 2, ...beside());
  return accountBoard(box, path, panels);
}

function beside() {
  const curves = [["paper", "agent", "Champion"], ["shadow", "agent", "Challenger, shadow", SHADOW]];
  return [worthPanel("Return of champion and challenger", "return", [...curves, ["paper", "prices"]], { height: 280 }),
    worthPanel("Drawdown", "drawdown", curves, { yText: share })];
}
