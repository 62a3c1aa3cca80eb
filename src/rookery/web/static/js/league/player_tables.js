// The players of a league as tables: in training, where all games are the learner's, and in a tournament.

import { h } from "../dom.js";
import { count, number, percent } from "../format.js";
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
