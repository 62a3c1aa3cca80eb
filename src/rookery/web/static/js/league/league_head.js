// The upper part of a league's page, and the figures of its tournament.

import { part } from "../api.js";
import { copyButton, h, link, put } from "../dom.js";
import { count, number, when } from "../format.js";

/** What the league is of; without a tournament, how to play one. */
export function showHead(container, { place, name, run, error, training, tournament }) {
  const about = [run?.world ?? tournament?.world, run?.learner?.toUpperCase()].filter(Boolean).join(" · ");
  const command = `rookery league ${name} --games 50 --with weak,strong`;
  put(container,
    h("div", { class: "row league-title" }, h("h1", {}, name),
      run && h("span", { class: `state ${run.state}` }, run.state), h("span", { class: "muted" }, about),
      h("span", { class: "grow" }), run && link(`/runs/${part(place)}/${part(name)}`, { class: "button" }, "The run")),
    error && h("p", { class: "note error" }, error),
    !training && !tournament && h("p", { class: "empty" }, "Nothing of this league can be read yet."),
    !tournament && h("div", { class: "card" },
      h("p", {}, "No tournament has been played. Every two agents meet after:"),
      h("div", { class: "command" }, h("code", {}, command), copyButton(command))));
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

const figure = (value, label) => h("div", { class: "number-box" }, h("b", {}, value), h("span", {}, label));
