// The head of a run's page: what it is, how far it is, how fast, and what limits it.

import { addressOf, isShown } from "../address_state.js";
import { post } from "../api.js";
import { figure, h, link, put } from "../dom.js";
import { count, duration, number, percent, short, when } from "../format.js";
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
  const left = isActive(row) && row.eta_seconds != null ? [figure(duration(row.eta_seconds), "left")] : [];
  const total = row.total_steps ? `of ${short(row.total_steps)} steps` : "steps";
  return [
    figure(count(row.steps), row.share == null ? total : `${total}, ${percent(Math.min(1, row.share))}`),
    figure(short(row.steps_per_second), "steps/s"),
    figure(number(row.return ?? details.progress?.["episode/return"]), "return, last 100 episodes"),
    figure(number(row.last_eval), "last evaluation"),
    figure(number(row.best_eval), row.best_eval < row.last_eval ? "best; the last is within noise" : "best evaluation"),
    figure(count(row.episodes), "episodes"),
    figure(duration(row.seconds), "elapsed"), ...left,
  ];
}


// Buttons that change a run: only where the dashboard was started with --allow-control.

/** The buttons for a run, or null if nothing may be changed. */
function controls(model, session) {
  if (!session.allow_control) return null;
  const said = h("span", { role: "status", class: "muted" }), place = h("div", { class: "row" });
  const element = h("div", { class: "row controls" }, place, said);
  const act = async (word, body, done) => {
    said.textContent = "…";
    try {
      const answer = await post(`${model.path}/${word}`, body);
      said.textContent = done;
      if ("tags" in answer) Object.assign(model.row, answer);
      model.tell("row");
    } catch (error) {
      said.textContent = error.message;
    }
    model.refreshSoon(0);
  };
  const draw = () => put(place, ...buttons(model, act));
  let before = "";
  model.on("row", () => {
    const now = JSON.stringify([model.row.state, model.row.hidden, model.row.tags]);
    if (now !== before && !place.contains(document.activeElement)) draw();
    before = now;
  });
  draw();
  return element;
}

function buttons(model, act) {
  const { row } = model, active = isActive(row);
  const button = (text, ...rest) => h("button", { type: "button", onclick: () => act(...rest) }, text);
  return [
    active ? stopButton(act) : button("Resume", "resume", {}, "It is being resumed."),
    button(row.hidden ? "Show in the table" : "Hide from the table", "hide", { hidden: !row.hidden }, "Done."),
    tagForm(row, act),
  ];
}

/** Asks once more: a stop is easily clicked by mistake. */
function stopButton(act) {
  let sure = false;
  const button = h("button", { type: "button", onclick: click, onblur: () => ask(false) }, "Stop");
  function ask(now) { sure = now; button.textContent = now ? "Stop it now?" : "Stop"; }
  function click() {
    if (sure) act("stop", {}, "It will stop after a checkpoint.");
    ask(!sure);
  }
  return button;
}

function tagForm(row, act) {
  const input = h("input",
    { name: "tags", value: (row.tags ?? []).join(", "), placeholder: "baseline, paper", size: 18 });
  const save = (event) => {
    event.preventDefault();
    act("tags", { tags: input.value.split(",").map((tag) => tag.trim()).filter(Boolean) }, "Tags are saved.");
  };
  return h("form", { class: "row", onsubmit: save }, h("label", {}, "Tags ", input), h("button", {}, "Save tags"));
}
