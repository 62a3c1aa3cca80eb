// A registry: champion beside challenger, what the gate found, all versions, and the log of every change.

import { addressState } from "../address_state.js";
import { get, part } from "../api.js";
import { card, command, h, put } from "../dom.js";
import { accountBoard, worthPanel } from "../markets/account_board.js";
import { aliasCards, auditLog, gateView, versionTable } from "../markets/registry_views.js";
import { share } from "../markets/market_format.js";
import { marketLink } from "../markets/market_parts.js";
import { colour } from "../chart.js";
import { poll } from "../stream.js";

const AGAIN_MS = 2000;
const LOOKS = {
  gate: { colour: colour(0), width: 2 }, rival: { colour: colour(3), width: 2 },
  hold: { colour: colour(1), dash: [7, 4] },
};

export async function show(container, { params: { place, name }, signal }) {
  document.title = `${name} · rookery`;
  const path = `/api/markets/${part(place)}/${part(name)}`, address = addressState({ compared: "" });
  const boxes = Object.fromEntries(["head", "compared", "versions", "log"].map((key) => [key, h("div")]));
  put(container, Object.values(boxes));
  let registry = null, board = null;
  const log = auditLog(boxes.log, path, signal);

  function compare(number) {
    board?.close();
    const pick = (next) => { address.change({ compared: next }); compare(next); };
    board = comparison(boxes.compared, path, registry, number, pick);
  }

  async function refresh() {
    const next = await get(`${path}/registry`, {}, signal);
    if (JSON.stringify(next) === JSON.stringify(registry)) return AGAIN_MS;
    registry = next;
    put(boxes.head, head(registry), aliasCards(registry));
    put(boxes.versions, versionTable(registry));
    compare(Number(address.state.compared) || registry.compared);
    await log.refresh();
    container.dataset.complete = "true";
    return AGAIN_MS;
  }

  const end = poll(signal, refresh, await refresh());
  return () => { end(); board?.close(); delete container.dataset.complete; };
}

function head(registry) {
  return h("div", { class: "row study-title" }, h("h1", {}, registry.name),
    h("span", { class: "muted" }, "registry of agents"), h("span", { class: "grow" }),
    registry.paper && marketLink("paper", registry, "", "Paper account"));
}

/** A version beside who was champion: conditions, figures, and the accounts of both. Returns its board, if any. */
function comparison(box, path, registry, number, pick) {
  const version = registry.versions.find((one) => one.number === number);
  if (!version?.decision) {
    put(box, card("Comparison", h("p", { class: "muted" }, "No version was compared with a champion yet."),
      command(`rookery deploy STUDY_OR_RUN --to ${registry.path}`)));
    return null;
  }
  const decided = registry.versions.filter((one) => one.decision), panels = comparedPanels(version);
  const charts = panels.length ? h("div", { class: "compared" }) : null;
  put(box, gateView(version, decided, pick), charts);
  return charts && accountBoard(charts, path, panels);
}

function comparedPanels({ number, accounts, decision }) {
  const mine = `gate-${number}`, other = `rival-${number}`;
  if (!accounts.includes(mine)) return [];
  const curves = [[mine, "agent", `Version ${number}`, LOOKS.gate]];
  if (accounts.includes(other)) curves.push([other, "agent", `Champion ${decision.champion ?? ""}`, LOOKS.rival]);
  curves.push([mine, "hold", "Hold", LOOKS.hold]);
  return [worthPanel("Return on the last segment", "return", curves),
    worthPanel("Drawdown", "drawdown", curves, { yText: share })];
}
