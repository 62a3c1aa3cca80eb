// The matches of a tournament, page by page, each with a link that plays it again.

import { get } from "../api.js";
import { h, headed, link, put, unseen } from "../dom.js";
import { count } from "../format.js";

const PAGE = 50, RESULTS = { 1: "won", 0: "drawn", "-1": "lost" };

/** The list and its filters, whose choices are in the address: `set(id, tournament)`, `choose(player, against)`. */
export function matchTable(container, path, { state, change }, signal) {
  const tools = h("div", { class: "row table-tools" }), box = h("div", { class: "scroll match-list" });
  const said = h("span", { class: "muted small", role: "status" }), pages = h("span", { class: "row" });
  put(container, tools, box, h("div", { class: "row match-pages" }, said, h("span", { class: "grow" }), pages));
  let tournament = null, league = "", byIndex = new Map(), listed = "";

  async function load() {
    const { player, against, result, from } = state;
    const page = await get(`${path}/matches`, { player, against, result, offset: from, limit: PAGE }, signal);
    const rows = page.number.map((_, k) => matchRow(page, k));
    const heads = ["Player", "Against", "Result", ["Steps", "number"], ["Match", "number wide"], unseen("Replay")];
    put(box, page.total ? headed(heads, rows, { caption: "Matches" }) : h("p", { class: "muted" }, "No such match."));
    said.textContent = page.total ? `${count(from + 1)} to ${count(from + rows.length)} of ${count(page.total)}` : "";
    const move = (by, text) => h("button", {
      type: "button", disabled: by < 0 ? !from : from + PAGE >= page.total,
      onclick: () => go({ from: Math.max(0, from + by) }),
    }, text);
    put(pages, page.total > PAGE && [move(-PAGE, "Newer"), move(PAGE, "Older")]);
  }

  function go(values) {
    change(values);
    drawTools();
    return load();
  }

  function drawTools() {
    const names = JSON.stringify([tournament.id, state.player, state.against, state.result]);
    if (listed === names) return; // somebody may be choosing
    listed = names;
    const some = tournament.players.map(({ index, name }) => [String(index), name]);
    const choose = (key, title, options) => h("label", {}, title, h("select", {
      onchange: ({ target }) => go({ [key]: target.value, from: 0 }),
    }, options.map(([value, text]) => h("option", { value, selected: state[key] === value }, text))));
    put(tools, choose("player", "Player", [["", "anybody"], ...some]),
      choose("against", "Against", [["", "anybody"], ...some]),
      choose("result", "Result", [["", "any"], ["won", "won"], ["drawn", "drawn"], ["lost", "lost"]]));
  }

  return {
    async set(id, found) {
      if (!found.has_matches) {
        put(tools);
        return put(box, h("p", { class: "muted" }, "This tournament was played before matches were recorded."));
      }
      if (tournament && tournament.id !== found.id) change({ player: "", against: "", result: "", from: 0 });
      [tournament, league, byIndex] = [found, id, new Map(found.players.map((player) => [player.index, player]))];
      drawTools();
      return box.contains(document.activeElement) ? undefined : load(); // nobody loses the link that has the focus
    },
    choose: (player, against) => go({ player: String(player), against: String(against), result: "", from: 0 }),
  };

  function matchRow(page, k) {
    const [first, second, number] = [page.first[k], page.second[k], page.number[k]];
    const one = byIndex.get(first)?.name ?? `player ${first}`, other = byIndex.get(second)?.name ?? `player ${second}`;
    const again = byIndex.get(first)?.replayable && byIndex.get(second)?.replayable;
    const query = new URLSearchParams({ league, tournament: page.id, first, second, number });
    const label = `Replay match ${number + 1} of ${one} against ${other}`;
    const result = RESULTS[page.winner[k]];
    return h("tr", {}, h("td", {}, one), h("td", {}, other), h("td", { class: `result ${result}` }, result),
      h("td", { class: "number" }, count(page.length[k])), h("td", { class: "number wide" }, number + 1),
      h("td", {}, again ? link(`/play?${query}`, { "aria-label": label }, "Replay")
        : h("span", { class: "muted", title: "a player is not known any more, or is a Python file" }, "–")));
  }
}
