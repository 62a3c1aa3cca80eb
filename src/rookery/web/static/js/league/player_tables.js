// The players of a league as tables: in training, where all games are the learner's, and in a tournament.

import { part } from "../api.js";
import { command, figure, h, link, put, scrolled, unseen } from "../dom.js";
import { count, number, percent, when } from "../format.js";
import { dataTable } from "../table.js";

const KINDS = { learner: "learner", member: "member", retired: "retired", other: "opponent" };
const decimal = (value) => (value === null || value === undefined ? "–" : value.toFixed(1));
const figures = (key, title, text, more = {}) => ({
  key, title, width: 5.2, number: true, descending: true, cell: (row) => text(row[key]), ...more,
});
const NAME = { key: "name", title: "Player", width: 9, grow: true, header: true };
const RATING = [
  figures("step", "Steps", count, { hint: "steps that the agent was trained for", width: 6.2 }),
  figures("mu", "Rating", decimal, { hint: "mean of the estimated skill" }),
  figures("sigma", "±", decimal, { hint: "standard deviation of the estimate", width: 4 }),
  figures("rating", "At least", decimal, { hint: "rating minus three standard deviations" }),
];
const GAMES = [
  figures("games", "Games", count), figures("won", "Won", count), figures("drawn", "Drawn", count),
  figures("lost", "Lost", count),
];
const TRAINING = [
  NAME, { key: "kind", title: "Kind", width: 7, value: (row) => KINDS[row.kind] }, ...RATING,
  ...GAMES.map((column) => ({ ...column, hint: `${column.title.toLowerCase()} by the learner against this player` })),
  figures("win_rate", "Recent", percent, { hint: "the learner's score in its latest games against this player" }),
  figures("chance", "Drawn next", percent, { hint: "chance to be the next opponent from the archive", width: 6.8 }),
];
const TOURNAMENT = [
  NAME, ...RATING, ...GAMES,
  figures("score", "Score", percent, { hint: "share of games won; a draw is half a win" }),
];

/** The learner and its opponents: `update(rows)`. */
export const trainingPlayers = (container) => table(container, "Players in training", TRAINING);

/** The players of a tournament: `update(rows)`. */
export const tournamentPlayers = (container) => table(container, "Players of the tournament", TOURNAMENT);

function table(container, caption, columns) {
  const box = h("div", { class: "league-players" }), sort = { key: "rating", descending: true };
  container.append(box);
  return dataTable(box, { caption, columns, key: (row) => row.index ?? row.name, sort, rowHeight: 36 });
}

// The upper part of a league's page, and the figures of its tournament.

/** What the league is of; without a tournament, how to play one. */
export function showHead(container, { place, name, run, error, training, tournament }) {
  const about = [run?.world ?? tournament?.world, run?.learner?.toUpperCase()].filter(Boolean).join(" · ");
  put(container,
    h("div", { class: "row league-title" }, h("h1", {}, name),
      run && h("span", { class: `state ${run.state}` }, run.state), h("span", { class: "muted" }, about),
      h("span", { class: "grow" }), run && link(`/runs/${part(place)}/${part(name)}`, { class: "button" }, "The run")),
    error && h("p", { class: "note error" }, error),
    !training && !tournament && h("p", { class: "empty" }, "Nothing of this league can be read yet."),
    !tournament && h("div", { class: "card" },
      h("p", {}, "No tournament has been played. Every two agents meet after:"),
      command(`rookery league ${name} --games 50 --with weak,strong`)));
}

/** How large the tournament is, and how far. */
export function showTournament(container, tournament) {
  const { state, played, games, games_per_pair: each, player_count: players, seed, time, spearman } = tournament;
  const fill = h("span", { style: { width: `${(100 * played) / Math.max(1, games)}%` } });
  put(container, h("div", { class: "card stack" },
    h("div", { class: "row" }, h("h2", {}, "Tournament"),
      h("span", { class: `state ${state === "playing" ? "running" : state.replace(/ /g, "-")}` }, state),
      h("span", { class: "muted small" }, when(time))),
    h("div", { class: "figures" }, figure(count(players), "players"), figure(count(each), "games of each pair"),
      figure(played < games ? `${count(played)} of ${count(games)}` : count(games), "games"), figure(seed, "seed"),
      spearman && figure(number(spearman.score), "rank correlation of rating and score")),
    played < games && h("div", { class: "bar", role: "img", "aria-label": `${count(played)} games played` }, fill)));
}

// Who beats whom: a table whose cells are shares of points, in numbers and in colour.

/** The matrix; a click on a cell calls `pick(player, against)` with the places of both in the file of the games. */
export function winMatrix(container, pick) {
  const table = h("table", { class: "win-matrix" }), note = h("p", { class: "small muted" });
  const box = scrolled("Win matrix", table);
  put(container, note, box);
  let shown = [];
  table.addEventListener("click", ({ target }) => {
    const cell = target.closest("td[data-games]");
    if (cell) pick(shown[cell.parentElement.rowIndex - 1].index, shown[cell.cellIndex - 1].index);
  });

  function set({ players, player_count: all, won, drawn }) {
    shown = players.slice(0, won.length);
    const some = all > shown.length ? ` These are the best ${shown.length} of ${all} players.` : "";
    note.textContent = `Score of the player in the row against the one in the column, in percent. A draw is half a win.
      Click on a cell to list its matches.${some}`;
    const heads = shown.map(({ name }, k) => h("th", { scope: "col", title: name }, k + 1, unseen(` ${name}`)));
    const rows = shown.map((player, a) => h("tr", {}, h("th", { scope: "row", title: player.name },
      h("span", { class: "rank" }, a + 1), player.name), shown.map((other, b) => cell(player, other, {
      won: won[a][b], lost: won[b][a], drawn: drawn[a][b], same: a === b,
    }))));
    put(table, h("caption", { class: "visually-hidden" }, "Win matrix"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Player"), heads)), h("tbody", {}, rows));
  }
  return { set };
}


function cell(player, other, { won, drawn, lost, same }) {
  const games = won + drawn + lost;
  if (same || !games) return h("td", { class: "none" }, same ? unseen("itself") : "–");
  const share = (won + drawn / 2) / games;
  const title = `${player.name} against ${other.name}: ${won} won, ${drawn} drawn, ${lost} lost`;
  const made = h("td", { class: share >= 0.5 ? "ahead" : "behind", title, "data-games": games },
    Math.round(100 * share), unseen(` percent: ${title}`));
  made.style.setProperty("--strength", percent(Math.abs(share - 0.5)).replace(" ", ""));
  return made;
}
