// All leagues in the folders that are shown.

import { get, part } from "../api.js";
import { copyButton, h, link, put } from "../dom.js";
import { count, moment, number } from "../format.js";
import { poll } from "../study/polling.js";
import { dataTable } from "../table.js";

export async function show(container, { signal }) {
  document.title = "Leagues · rookery";
  const box = h("div");
  put(container, h("h1", {}, "Leagues"), box);
  let table = null;

  async function refresh() {
    const { leagues } = await get("/api/leagues", {}, signal);
    if (!leagues.length) {
      table?.destroy();
      table = null;
      put(box, nothing());
      return 3000;
    }
    if (!table) put(box);
    const sort = { key: "updated", descending: true };
    table ??= dataTable(box, { caption: "Leagues", columns: COLUMNS, key: (row) => row.id, sort, rowHeight: 44 });
    table.update(leagues);
    return leagues.some((row) => row.state === "running") ? 2000 : 5000;
  }

  const wait = await refresh(), end = poll(signal, refresh, wait);
  return () => { end(); table?.destroy(); };
}

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
  const line = (text) => h("div", { class: "command" }, h("code", {}, text), copyButton(text));
  return h("div", { class: "empty" }, h("h2", {}, "No league yet"),
    h("p", {}, "A run that plays against its past agents has one:"), line("rookery train hockey --opponents archive"),
    h("p", {}, "A tournament between the checkpoints of any run of a game for two makes one too:"),
    line("rookery league RUN --games 50 --with weak,strong"));
}
