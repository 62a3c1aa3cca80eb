// One session in the page: the picture, its controls, and what the agent thinks.

import { address } from "../api.js";
import { detailsPanel } from "./details.js";
import { h, put } from "../dom.js";
import { count, percent } from "../format.js";
import { framesPicture } from "./frames_picture.js";
import { hockeyPicture } from "./hockey.js";
import { playerKeys } from "./keys.js";

/**
 * Play in `container`; `query` is that of the session. A `compact` stage has the picture and few buttons. `onFrame` is
 * called with each frame, `onReady` with what is known before them. Returns {send(order), end()}.
 */
export function stage(container, query, { compact = false, onReady = null, onFrame = null } = {}) {
  const status = h("p", { class: "play-status", role: "status" }, "Starting the session …");
  const picture = h("div", { class: "play-picture" }), side = h("div", { class: "play-side" }), below = h("div");
  const main = h("div", { class: "play-main" }, status, picture, below);
  put(container, h("div", { class: compact ? "play-stage compact" : "play-stage" }, main, side));
  let parts = null, waiting = null, ended = false;

  const session = openSession(query, {
    onLoading: () => { status.textContent = "Loading the agent: this takes some seconds …"; },
    onReplay: ({ from, step, to }) => {
      const done = to > from ? `: ${percent((step - from) / (to - from))}` : "";
      status.textContent = `Training again from step ${count(from)} to ${count(to)}${done} …`;
    },
    onReady: (facts) => { status.hidden = true; parts = build(facts); onReady?.(facts); },
    onFrame: (frame, image) => {
      // Only the newest is drawn; one that came in between is answered all the same.
      if (waiting) { session.seen(waiting[0].n); waiting[1]?.close(); } else requestAnimationFrame(draw);
      waiting = [frame, image];
    },
    onEnd: (sentence) => stopped(sentence),
  });

  function build(facts) {
    const canvas = h("canvas",
      { class: facts.tiles?.pixelated ? "pixelated" : facts.view, role: "img", tabindex: 0,
        "aria-label": label(facts) });
    const counter = meter(canvas);
    put(picture, canvas);
    put(below);
    const buttons = controls(below, session.send, { replay: Boolean(facts.match) });
    const match = facts.match && matchNote(below, facts.match);
    put(side);
    const panel = detailsPanel(side, facts);
    if (facts.human) {
      const pads = playerKeys(canvas,
        (keys, time) => { counter.pressed(keys.sequence, time); session.send({ keys }); });
      picture.append(pads);
      below.prepend(h("p", { class: "muted small" }, "You are blue. ",
        ...["W", "A", "S", "D"].map((key) => h("kbd", {}, key)), " or the arrows move your racket, ",
        h("kbd", {}, "Q"), h("kbd", {}, "E"), " turn it, ", h("kbd", {}, "Space"),
        " shoots the puck that you hold. The picture must have the focus."));
      canvas.focus();
    }
    below.append(counter.text);
    const drawing = facts.view === "hockey" ? hockeyPicture(canvas, facts.names) : framesPicture(canvas, facts.tiles);
    return { drawing, panel, buttons, counter, match };
  }

  function draw() {
    if (ended || !waiting || !parts) return;
    const [frame, image] = waiting;
    waiting = null;
    parts.drawing.draw(frame, image);
    session.seen(frame.n);
    parts.counter.drawn(frame);
    parts.panel.show(frame);
    parts.buttons.show(frame);
    parts.match?.show(frame);
    onFrame?.(frame);
  }

  function stopped(sentence) {
    ended = true;
    status.hidden = false;
    put(status, h("span", { class: "bad" }, sentence), " ",
      h("button", { type: "button", onclick: again }, "Start again"));
  }
  function again() { Object.assign(own, stage(container, query, { compact, onReady, onFrame })); }

  const own = { send: session.send, end() { ended = true; session.close(); } };
  return { send: (order) => own.send(order), end: () => own.end() };
}

function label({ human, match, world }) {
  if (human) return "Hockey: you play against the agent";
  return `${world}: ${match ? match.players.join(" against ") : "the agent plays"}`;
}

// The socket of a session: frames come, orders go. A frame is answered once it is drawn, so that none queue up.

/**
 * Open a session. `handlers`: onLoading(), onReplay(progress), onReady(facts), onFrame(frame, image or null),
 * onEnd(sentence).
 * Returns {send(order), seen(n), close()}. An order is {pause, step, speed, deterministic, seed, keys}.
 */
function openSession(query, { onLoading, onReplay, onReady, onFrame, onEnd }) {
  const url = new URL(address("/api/play", query), location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const socket = new WebSocket(url);
  let ended = false, sentence = null, tiles = null;
  socket.binaryType = "arraybuffer";
  socket.onmessage = async ({ data }) => {
    const [message, bytes] = typeof data === "string" ? [JSON.parse(data), null] : parts(data);
    if (message.kind === "error") sentence ??= message.error; // the first says why; the process ends after it
    else if (message.kind === "loading") onLoading();
    else if (message.kind === "replaying") onReplay(message);
    else if (message.kind === "ready") { tiles = message.tiles; onReady(message); }
    else onFrame(message, bytes && await createImageBitmap(new Blob([bytes], { type: tiles.format })));
  };
  socket.onclose = () => { if (!ended) onEnd(sentence ?? "the connection to the dashboard is lost"); ended = true; };
  const send = (order) => { if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(order)); };
  return { send, seen: (n) => send({ seen: n }), close() { ended = true; socket.close(); } };
}

/** A binary message: the length of its JSON, the JSON, the image. */
function parts(data) {
  const length = new DataView(data).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(data, 4, length));
  return [JSON.parse(text), new Uint8Array(data, 4 + length)];
}

// Which match is played again, how it ended in its tournament, and whether the replay ends like that.

const TEXTS = {
  null: "It is played again, with the same seed and the same players.",
  true: "The replay has ended as the match did.",
  false: "The replay has ended otherwise than the match: the world, a library or the machine is another.",
};

/** Lines above the controls; `show(frame)` keeps them as the game is. */
function matchNote(container, { players, number, winner, length }) {
  const ended = winner === null ? "Nobody won it" : `${winner} won it`;
  const said = h("p", { class: "note", role: "status" });
  container.prepend(h("p", {}, h("b", {}, players.join(" against ")),
    `, match ${number + 1}. ${ended}, after ${count(length)} steps.`), said);
  let shown = "";

  function show({ as_recorded: same }) {
    const text = TEXTS[same];
    if (text !== shown) said.textContent = shown = text;
    said.classList.toggle("warning", same === false);
  }
  return { show };
}

// Frames a second, and the time from a key to the frame that shows it, as the browser draws them.

const KEPT = 60;

/** Counts what is drawn, and says it twice a second. `pressed(sequence, time)` notes a key. */
function meter(canvas) {
  const text = h("span", { class: "muted small", role: "note" }), frames = [], delays = [], pressed = new Map();
  let said = 0;

  /** A frame was drawn: measurements listen for the event "drawn" of the canvas. */
  function drawn(frame) {
    const now = performance.now();
    let delay = null;
    if (frame.playing === false) pressed.clear(); // between games keys move nothing
    for (const [sequence, time] of pressed) {
      if (sequence > (frame.keys ?? 0)) continue;
      delay = now - time;
      pressed.delete(sequence);
      keep(delays, delay);
    }
    keep(frames, now);
    canvas.dispatchEvent(new CustomEvent("drawn", { detail: { n: frame.n, time: now, delay } }));
    if (now - said > 500) say(now);
  }
  function say(now) {
    said = now;
    const rate = frames.length > 1 ? (1000 * (frames.length - 1)) / (frames.at(-1) - frames[0]) : 0;
    const mean = delays.reduce((sum, delay) => sum + delay, 0) / (delays.length || 1);
    const delay = delays.length ? ` · ${mean.toFixed(0)} ms from key to frame` : "";
    text.textContent = `${rate.toFixed(0)} frames/s${delay}`;
  }
  return { text, drawn, pressed: (sequence, time) => pressed.set(sequence, time) };
}

function keep(values, value) {
  values.push(value);
  if (values.length > KEPT) values.shift();
}

// Buttons of a session: pause, step, speed, deterministic or sampled, restart with a seed.

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8];

/**
 * The controls; `send(order)` goes to the session. `show(frame)` keeps them as the session is. In a `replay` the seed
 * and the actions are given.
 */
function controls(container, send, { replay = false } = {}) {
  let paused = false;
  const pause = h("button", { type: "button", class: "main", onclick: () => send({ pause: !paused }) }, "Pause");
  const step = h("button", { type: "button", onclick: () => send({ step: true }) }, "Step");
  const speed = h("select", { onchange: () => send({ speed: Number(speed.value) }) },
    SPEEDS.map((value) => h("option", { value, selected: value === 1 }, `${value} ×`)));
  const sampled = h("input", { type: "checkbox", onchange: () => send({ deterministic: !sampled.checked }) });
  const seed = h("input", { type: "number", min: 0, max: 2147483647, step: 1, class: "seed" });
  const restart = (event) => {
    event.preventDefault();
    send({ seed: Math.max(0, Math.floor(Number(seed.value) || 0)) });
  };
  container.append(h("div", { class: "row play-controls" }, pause, step,
    h("label", {}, "Speed", speed), !replay && h("label", { class: "check" }, sampled, " sampled actions"),
    h("form", { class: "row", onsubmit: restart }, !replay && h("label", {}, "Seed", seed),
      h("button", { type: "submit" }, replay ? "From the beginning" : "Restart"))));

  function show(frame) {
    if (frame.paused !== paused) {
      paused = frame.paused;
      pause.textContent = paused ? "Continue" : "Pause";
    }
    if (sampled.checked === frame.deterministic) sampled.checked = !frame.deterministic;
    if (seed.value === "") seed.value = frame.seed;
  }
  return { show };
}
