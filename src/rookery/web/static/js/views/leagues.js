// All leagues in the folders that are shown.

import { part } from "../api.js";
import { command, h, link } from "../dom.js";
import { count, moment, number } from "../format.js";
import { listing } from "../listing.js";

export const show = (container, { signal }) =>
  listing(container, signal, { title: "Leagues", path: "/api/leagues", key: "leagues", columns: COLUMNS, nothing });

const address = (row) => `/leagues/${part(row.place)}/${part(row.name)}`;
const rating = ({ learner }) => (learner ? `${number(learner.mu)} ± ${number(learner.sigma)}` : "–");
const games = ({ tournament }) => (tournament ? `${count(tournament.games)} of ${count(tournament.players)}` : "–");

const COLUMNS = [
  {
    key: "name", title: "League", width: 11, grow: true, header: true,
    cell: (row) => link(address(row), {}, row.name),
  },
  {
    key: "state", title: "Run", width: 8, stamp: (row) => row.state,
    cell: (row) => (row.state ? h("span", { class: `state ${row.state}` }, row.state) : "–"),
  },
  { key: "world", title: "World", width: 8 },
  {
    key: "agents", title: "Agents", hint: "past agents in the archive, retired ones too", width: 6, number: true,
    descending: true, cell: (row) => count(row.agents),
  },
  {
    key: "rating", title: "Learner's rating", hint: "mean and standard deviation", width: 9.5, number: true,
    descending: true, value: (row) => row.learner?.mu ?? null, cell: rating, stamp: rating,
  },
  {
    key: "games", title: "Tournament", hint: "games of how many players", width: 8.5, number: true, descending: true,
    value: (row) => row.tournament?.games ?? null, cell: games, stamp: games,
  },
  { key: "updated", title: "Changed", width: 8, number: true, descending: true, cell: (row) => moment(row.updated) },
];

function nothing() {
  return h("div", { class: "empty" }, h("h2", {}, "No league yet"),
    h("p", {}, "A run that plays against its past agents has one:"),
    command("rookery train hockey --opponents archive"),
    h("p", {}, "A tournament between the checkpoints of any run of a game for two makes one too:"),
    command("rookery league RUN --games 50 --with weak,strong"));
}
