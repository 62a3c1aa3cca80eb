// A league: ratings over time, opponents, the win matrix, and every match to see again.

import { addressState } from "../address_state.js";
import { get, part } from "../api.js";
import { card, h, put } from "../dom.js";
import { showHead, showTournament, tournamentPlayers, trainingPlayers, winMatrix } from "../league/player_tables.js";
import { matchTable } from "../league/match_table.js";
import { agentRatings, ratingCurves } from "../league/rating_charts.js";
import { poll } from "../stream.js";

const PLAYING_MS = 1500, QUIET_MS = 4000;

export async function show(container, { params: { place, name }, signal }) {
  document.title = `${name} · rookery`;
  const path = `/api/leagues/${part(place)}/${part(name)}`;
  const address = addressState({ player: "", against: "", result: "", from: 0 });
  const parts = layout(container), sections = sectionsOf(parts, path, address, signal);
  let stamp = "";

  async function refresh() {
    const league = await get(path, {}, signal), { training, tournament } = league;
    const now = JSON.stringify([league.run, league.error, training?.step, training?.updated, tournament?.id,
      tournament?.played, tournament?.state]);
    if (now !== stamp) {
      showHead(parts.head, league);
      await sections.draw(league);
    }
    stamp = now;
    container.dataset.complete = "true"; // for tests that wait until everything is there
    return league.run?.state === "running" || tournament?.state === "playing" ? PLAYING_MS : QUIET_MS;
  }

  const wait = await refresh(), end = poll(signal, refresh, wait);
  return () => {
    end();
    sections.destroy();
    delete container.dataset.complete;
  };
}

const NAMES = ["head", "curves", "training", "tournament", "players", "agents", "matrix", "matches"];

function layout(container) {
  const parts = Object.fromEntries(NAMES.map((name) => [name, h("div")]));
  parts.inTraining = h("div", {}, card("Ratings over time", parts.curves),
    h("section", { class: "league-part" }, h("h2", {}, "Opponents in training"), parts.training));
  parts.inTournament = h("div", {}, parts.tournament,
    h("section", { class: "league-part" }, h("h2", {}, "Players of the tournament"), parts.players),
    h("div", { class: "league-pair" }, card("Win matrix", parts.matrix), parts.agents),
    h("section", { class: "league-part", id: "matches" }, h("h2", {}, "Matches"), parts.matches));
  put(container, parts.head, parts.inTraining, parts.inTournament);
  return parts;
}

/** The parts that are drawn when something has changed. */
function sectionsOf(parts, path, address, signal) {
  const curves = ratingCurves(parts.curves), training = trainingPlayers(parts.training);
  const players = tournamentPlayers(parts.players), agents = agentRatings(parts.agents);
  const matches = matchTable(parts.matches, path, address, signal);
  const matrix = winMatrix(parts.matrix, (player, against) => {
    matches.choose(player, against);
    document.getElementById("matches").scrollIntoView({ block: "start" });
  });

  async function draw({ id, training: trained, tournament }) {
    parts.inTraining.hidden = !trained;
    parts.inTournament.hidden = !tournament;
    if (trained) {
      training.update(trained.players);
      curves.set(await get(`${path}/ratings`, {}, signal));
    }
    if (!tournament) return;
    showTournament(parts.tournament, tournament);
    players.update(tournament.players);
    agents.set(tournament.players);
    matrix.set(tournament);
    await matches.set(id, tournament);
  }
  const all = [curves, training, players, agents];
  return { draw, destroy: () => { for (const one of all) one.destroy(); } };
}
