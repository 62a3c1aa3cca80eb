// Back in a run: a slider under the return curve, the agent of then beside the agent of now, and a fork from there.

import { post, runPath } from "../api.js";
import { marker, onDraw } from "../chart.js";
import { command, h, link, put, svg } from "../dom.js";
import { count } from "../format.js";

const STEPS = 400; // of the slider over what is seen, by the arrow keys
const SEND_MS = 150; // between two agents while the slider is dragged
const TICKS = 16; // pixels high

/**
 * A card for below `chart`, the panel of returns. `session` says whether runs may be changed, `forked(id)` is called
 * after a fork. Returns {element, draw(), end()}; it is to be drawn once it is in the page.
 */
export function rewindPanel(model, board, chart, session, forked) {
  const slider = h("input", { type: "range", id: "moment", oninput: () => move(Number(slider.value), true) });
  const exactly = h("input", { type: "number", min: 0, step: 1, "aria-label": "Step", class: "step",
    onchange: () => move(Number(exactly.value) || 0) });
  const said = h("output", { for: "moment", class: "muted small" }), ticks = svg("path");
  const scale = svg("svg",
    { class: "ticks", height: TICKS, preserveAspectRatio: "none", "aria-hidden": "true" }, ticks);
  const track = h("div", { class: "rewind-track" }, slider, scale);
  const players = playersOf(model, () => moment), form = forkForm(model, session, () => moment, forked);
  const button = (text, label, onclick) => h("button", { type: "button", "aria-label": label, onclick }, text);
  const element = h("section", { class: "card rewind needs-server", "aria-label": "Rewind" },
    h("label", { for: "moment", class: "rewind-title" }, "Go back to a moment of this run"), track,
    h("div", { class: "row" },
      button("‹", "The checkpoint before", () => jump(-1)), exactly, button("›", "The next checkpoint", () => jump(1)),
      said, h("span", { class: "grow" }), players.buttons),
    players.element, form.element);
  let moment = null, kept = [], first = 0, last = 0, drawn = "", line = null;

  function draw() {
    const { row, details } = model;
    kept = (details.checkpoints ?? []).filter((one) => one.kept && one.step != null).map(({ step }) => step);
    kept = [...new Set(kept)].sort((a, b) => a - b);
    first = details.fork_of?.step ?? 0;
    last = Math.max(row.steps ?? 0, kept.at(-1) ?? 0);
    moment ??= last;
    place();
  }

  /** The slider is as wide as the curves, and reaches over the same steps. */
  function place() {
    const plot = board.axis === "steps" ? chart.chart?.plot : null, box = plot?.over;
    const range = plot && plot.scales.x.max > plot.scales.x.min ? plot.scales.x : { min: first, max: last };
    const [low, high] = [Math.max(first, Math.floor(range.min)), Math.max(1, Math.ceil(Math.min(last, range.max)))];
    const within = (step) => (step - range.min) / (range.max - range.min || 1);
    const { left, right } = box ? edges(track, box, within(low), within(high)) : { left: 0, right: 0 };
    const now = [low, high, kept.length, kept.at(-1), left, right].join();
    if (now !== drawn) {
      drawn = now;
      Object.assign(slider, { min: low, max: high, step: Math.max(1, Math.round((high - low) / STEPS)) });
      track.style.paddingLeft = `${left}px`;
      track.style.paddingRight = `${right}px`;
      const shown = kept.filter((step) => step >= low && step <= high), width = 1000;
      scale.setAttribute("viewBox", `0 0 ${width} ${TICKS}`);
      const at = (step) => (width * (step - low)) / (high - low || 1);
      ticks.setAttribute("d", shown.map((step) => `M${at(step)} 3V${TICKS - 3}`).join(""));
    }
    tell();
  }

  function tell() {
    if (Number(slider.value) !== moment) slider.value = moment;
    if (document.activeElement !== exactly) exactly.value = moment;
    const before = kept.findLast((step) => step <= moment) ?? kept[0];
    const text = before === undefined ? "no checkpoint is kept" : `of ${count(last)}; checkpoint at ${count(before)}`;
    if (said.textContent !== text) said.textContent = text;
    slider.setAttribute("aria-valuetext", `step ${count(moment)} ${text}`);
    line?.set(moment);
  }

  function move(step) {
    moment = Math.min(last, Math.max(first, Math.round(step)));
    tell();
    players.move();
    form.show();
  }

  function jump(way) {
    const next = way > 0 ? kept.find((step) => step > moment) : kept.findLast((step) => step < moment);
    if (next !== undefined) move(next);
  }

  chart.onBuild = (plot) => { line = marker(plot); onDraw(plot, place); };
  if (chart.chart) chart.onBuild(chart.chart.plot);
  return { element, draw, end() { chart.onBuild = null; players.end(); } };
}

/** How far a box is from both ends of the track, for a slider from one share of the box to another. Half of the thumb
 * hangs over. */
function edges(track, box, low, high) {
  const outer = track.getBoundingClientRect(), inner = box.getBoundingClientRect(), thumb = 8;
  const at = (share) => inner.left + share * inner.width;
  return { left: Math.max(0, at(low) - outer.left - thumb), right: Math.max(0, outer.right - at(high) - thumb) };
}

/** The agent of then and the agent of now, in sessions of the same seed. */
function playersOf(model, momentNow) {
  const names = [h("h3", {}, "Then"), h("h3", {}, "Now")], places = names.map(() => h("div"));
  const element = h("div", { class: "rewind-players", hidden: true },
    names.map((name, k) => h("div", {}, name, places[k])));
  const play = h("button", { type: "button", onclick: () => (stages ? end() : begin(false)) });
  const about = "Trains the run again from the checkpoint before, in a scratch folder";
  const exact = h("button", { type: "button", title: about, onclick: () => begin(true) }, "Exactly there");
  let stages = null, timer = 0, wanted = 0, last = 0;
  idle();

  function idle() { play.textContent = stages ? "Stop playing" : "Play it beside now"; }

  function title(k, word, step, more = "") {
    const text = `${word}: step ${count(step)}${more}`;
    if (names[k].textContent !== text) names[k].textContent = text;
  }

  function start(k, query, word) {
    let facts = {};
    const about = (step) => title(k, word, step, facts.exact && step === facts.step ? `, ${facts.exact}` : "");
    const told = {
      compact: true, onReady: (found) => { facts = found; about(facts.step); },
      onFrame: (frame) => { if (frame.agent_step !== undefined) about(frame.agent_step); },
    };
    let playing = null, over = false;
    import("../play/stage.js").then(({ stage }) => {  // late: most pages of runs play nothing
      if (!over) playing = stage(places[k], { agent: model.id, ...query }, told);
    });
    return { send: (order) => playing?.send(order), end() { over = true; playing?.end(); } };
  }

  function begin(exactly) {
    element.hidden = false;
    stages?.[0].end();
    put(names[0], "Then");
    const then = start(0, { at: momentNow(), exact: exactly ? 1 : null }, "Then");
    stages = [then, stages?.[1] ?? start(1, { best: 0 }, "Now")];
    idle();
  }

  function end() {
    clearTimeout(timer);
    timer = 0;
    stages?.forEach((one) => one.end());
    stages = null;
    element.hidden = true;
    places.forEach((one) => put(one));
    idle();
  }

  /** The session changes its agent, at most so often. */
  function move() {
    if (!stages) return;
    wanted = momentNow();
    timer ||= setTimeout(() => {
      timer = 0;
      if (wanted !== last) stages?.[0].send({ at: wanted });
      last = wanted;
    }, SEND_MS);
  }

  return { element, buttons: [play, exact], move, end };
}

/** What a fork has instead, and the command that makes it. Returns {element, show()}. */
function forkForm(model, session, momentNow, forked) {
  const name = h("input", { name: "name", placeholder: `${model.name}-fork`, size: 22 });
  const seed = h("input", { name: "seed", type: "number", min: 0, step: 1, placeholder: "as before" });
  const settings = h("textarea", { name: "settings", rows: 2, cols: 34, placeholder: "ppo.clip=0.1" });
  const said = h("p", { role: "status", class: "muted" }), place = h("div");
  const path = () => model.details.path ?? model.name;
  const lines = () => settings.value.split("\n").map((text) => text.trim().replace(/\s*=\s*/, "=")).filter(Boolean);
  const words = () => [`rookery fork ${quoted(path())} --at ${momentNow()}`,
    name.value && `--name ${quoted(name.value)}`, seed.value && `--seed ${seed.value}`,
    ...lines().map((text) => `--set ${quoted(text)}`)].filter(Boolean).join(" ");
  const show = () => { if (element.open) put(place, command(words())); };
  const act = async (event) => {
    event.preventDefault();
    put(said, "The fork is being made …");
    const body = { step: momentNow(), name: name.value || null, settings: lines(),
      seed: seed.value === "" ? null : Number(seed.value) };
    try {
      const made = await post(`${model.path}/fork`, body), id = `${model.place}/${made.forked}`;
      const several = body.settings.some((text) => text.includes(","));
      put(said, "It trains: ", several ? `${made.forked}-…` : link(runPath("/runs", id), {}, made.forked));
      forked(id);
    } catch (error) {
      put(said, h("span", { class: "bad" }, error.message));
    }
  };
  const form = h("form", { class: "row fork-form", onsubmit: act, oninput: show },
    h("label", {}, "Name", name), h("label", {}, "Seed", seed), h("label", {}, "Settings, one per line", settings),
    session.allow_control && h("button", { class: "main" }, "Fork from here"));
  const element = h("details", { class: "fork", ontoggle: show },
    h("summary", {}, "Fork from here"), form, place, said);
  return { element, show };
}

/** A word of a command line. */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
