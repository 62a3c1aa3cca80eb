// A playing agent: choose one, watch it play now, or play against it.

import { get, part } from "../api.js";
import { h, link, put } from "../dom.js";
import { when } from "../format.js";
import { stage } from "../play/stage.js";

const OPPONENTS = [["", "as in training"], ["strong", "strong script"], ["weak", "weak script"], ["none", "nobody"],
  ["self", "itself"]];

const MOST_OPPONENTS = 200; // in the menu; an address may name any

/**
 * The list of agents, or the session of one: `/play/PLACE/NAME`, or `/play?agent=hockey` for one that is shipped; or a
 * match of a league, which is played again.
 */
export async function show(container, { params, query, signal }) {
  if (query.get("league")) return replay(container, query);
  const id = params.name ? `${params.place}/${params.name}` : query.get("agent");
  const { agents } = await get("/api/agents", {}, signal);
  return id ? session(container, id, agents, query) : list(container, agents);
}

function list(container, agents) {
  document.title = "Play · rookery";
  const shipped = agents.filter((agent) => agent.kind === "shipped");
  const runs = agents.filter((agent) => agent.kind === "run");
  const search = h("input",
    { type: "search", placeholder: "name or world", "aria-label": "Search the agents", oninput: () => fill() });
  const cards = h("div", { class: "grid play-agents" });
  const fill = () => {
    const words = search.value.toLowerCase();
    const fits = (agent) => `${agent.name} ${agent.world ?? ""}`.toLowerCase().includes(words);
    const found = [...shipped, ...runs].filter(fits);
    put(cards, found.slice(0, 200).map(card),
      found.length ? null : h("p", { class: "empty" }, "No agent has this name."));
  };
  fill();
  put(container, h("div", { class: "row play-head" }, h("h1", {}, "Watch an agent play"), h("span", { class: "grow" }),
    search), cards,
    runs.length ? null : h("p", { class: "empty" }, "There is no run with a checkpoint yet: ",
      h("code", {}, "rookery train CartPole-v1")));
}

function card(agent) {
  return h("article", { class: "card" }, h("h2", {}, agent.name),
    h("p", { class: "muted small" },
      [agent.world, agent.learner?.toUpperCase(),
        agent.kind === "shipped" ? "comes with rookery" : when(agent.updated)].filter(Boolean).join(" · ")),
    h("div", { class: "row" },
      link(address(agent.id), { class: "button main", "aria-label": `Watch ${agent.name}` }, "Watch"),
      agent.against ? link(address(agent.id, "human"), { class: "button", "aria-label": `Play against ${agent.name}` },
        "Play against it") : null));
}

function address(id, opponent = "") {
  const [place, ...name] = id.split("/");
  const path = name.length ? `/play/${part(place)}/${part(name.join("/"))}?` : `/play?agent=${part(id)}&`;
  return `${path}${opponent ? `opponent=${part(opponent)}` : ""}`.replace(/[?&]$/, "");
}

function session(container, id, agents, query) {
  const agent = agents.find((found) => found.id === id)
    ?? { id, name: id, world: null, game: null, against: false };
  document.title = `${agent.name} plays · rookery`;
  const stageBox = h("div"), opponent = query.get("opponent") ?? "";
  const about = { agent: id, opponent, seed: query.get("seed"), envs: query.get("envs"), best: query.get("best"),
    deterministic: query.get("deterministic") };
  put(container, h("div", { class: "row play-head" }, h("h1", {}, agent.name),
    agent.world ? h("span", { class: "tag" }, agent.world) : null,
    h("span", { class: "grow" }), agent.game ? opponents(agent, opponent, agents) : null,
    link("/play", { class: "button" }, "Other agents")), stageBox);
  return stage(stageBox, about).end;
}

function replay(container, query) {
  document.title = "Replay of a match · rookery";
  const stageBox = h("div"), [place, ...rest] = query.get("league").split("/"), name = rest.join("/");
  const keys = ["league", "tournament", "first", "second", "number"];
  const about = Object.fromEntries(keys.map((key) => [key, query.get(key)]));
  put(container, h("div", { class: "row play-head" }, h("h1", {}, "Replay of a match"), h("span", { class: "grow" }),
    link(`/leagues/${part(place)}/${part(name)}`, { class: "button" }, `League of ${name}`)), stageBox);
  return stage(stageBox, about).end;
}

/** Links rather than a state: an address can be sent to somebody. */
function opponents(agent, chosen, agents) {
  const known = agent.against ? [["human", "you"], ...OPPONENTS] : OPPONENTS;
  const others = agents.filter(({ id, game }) => game === agent.game && id !== agent.id).slice(0, MOST_OPPONENTS);
  const named = others.map(({ id, name, kind }) => [id, kind === "shipped" ? `${name} (comes with rookery)` : id]);
  if (chosen && ![...known, ...named].some(([value]) => value === chosen)) named.unshift([chosen, chosen]);
  const option = ([value, text]) => h("option", { value, selected: value === chosen }, text);
  const select = h("select", { onchange: () => location.assign(address(agent.id, select.value)) }, known.map(option),
    named.length ? h("optgroup", { label: "Other agents" }, named.map(option)) : null);
  return h("label", {}, "Opponent", select);
}
