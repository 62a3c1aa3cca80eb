// The head of a run's page: what it is, how far it is, how fast, and what limits it.

import { addressOf } from "../address_state.js";
import { h, link, put } from "../dom.js";
import { count, duration, number, percent, short, when } from "../format.js";
import { isShown } from "../page_address.js";
import { controls } from "./run_controls.js";
import { bottleneck, isActive } from "./run_model.js";

/** Draws the head into an element; `draw()` draws it again. */
export function runHeader(model, session) {
  const top = h("div"), buttons = controls(model, session);
  const element = h("header", { class: "card run-head" }, top, buttons);
  return { element, draw: () => put(top, ...head(model)) };
}

function head(model) {
  const { row } = model;
  return [
    h("div", { class: "row" }, h("h1", {}, row.name), state(row),
      ...(row.tags ?? []).map((tag) => h("span", { class: "tag" }, tag)),
      row.hidden && h("span", { class: "tag" }, "hidden"), h("span", { class: "grow" }), ...links(model)),
    h("p", { class: "muted" }, settings(model)),
    progress(row), h("div", { class: "figures" }, ...figures(model)),
    row.state === "gone" && h("p", { class: "alert", role: "alert" }, "The folder of this run was moved or deleted."),
    row.stuck && h("p", { class: "alert", role: "alert" }, row.stuck),
    bottleneck(model) && h("p", { class: "bottleneck" }, bottleneck(model)),
  ];
}

const state = (row) => h("span", { class: `state ${row.state}` }, row.state ?? "unknown");

function links({ place, name, details }) {
  const id = `${encodeURIComponent(place)}/${encodeURIComponent(name)}`;
  const play = details.checkpoints?.length ? [link(`/play/${id}`, { class: "needs-server" }, "Watch it play")] : [];
  const has = (path) => details.files?.some((file) => file.path === path);
  const market = has("report/report.json") ? "backtest" : has("paper/log.jsonl") ? "paper" : null;
  const look = { class: market === "paper" && "needs-server" };
  const account = market && isShown("/markets") && link(`/markets/${market}/${id}`, look, "Market account");
  return [...play, account, link(addressOf("/compare", { run: [`${place}/${name}`] }), {}, "Compare")];
}

/** World, learner, envs, backend, workers, device and seed in a line. */
function settings({ row, details: { facts = {} } }) {
  const backend = facts.backend ? `${facts.backend} backend` : null;
  const workers = facts.workers ? `${facts.workers} ${facts.backend === "kernel" ? "threads" : "workers"}` : null;
  const seed = row.seed == null ? null : `seed ${row.seed}`;
  const created = row.created ? `started ${when(row.created)}` : null;
  const envs = row.num_envs ? `${count(row.num_envs)} ${row.num_envs === 1 ? "env" : "envs"}` : null;
  return [row.world, row.learner, envs, backend, workers, facts.device, seed, created].filter(Boolean).join(" · ");
}

function progress(row) {
  if (row.share == null) return null;
  const full = Math.min(1, row.share), fill = h("span");
  fill.style.width = `${100 * full}%`;
  return h("div", { class: "bar", role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0,
    "aria-valuemax": 100,
    "aria-valuenow": Math.round(100 * full) }, fill);
}

function figures({ row, details }) {
  const left = isActive(row) && row.eta_seconds != null ? [box(duration(row.eta_seconds), "left")] : [];
  const total = row.total_steps ? `of ${short(row.total_steps)} steps` : "steps";
  return [
    box(count(row.steps), row.share == null ? total : `${total}, ${percent(Math.min(1, row.share))}`),
    box(row.steps_per_second == null ? "–" : `${short(row.steps_per_second)}/s`, "steps a second"),
    box(number(row.return ?? details.progress?.["episode/return"]), "return of episodes"),
    box(number(row.last_eval), "last evaluation"),
    box(number(row.best_eval), "best evaluation"), box(count(row.episodes), "episodes"),
    box(duration(row.seconds), "elapsed"), ...left,
  ];
}

const box = (value, text) => h("div", { class: "number-box" }, h("b", {}, value), h("span", {}, text));
