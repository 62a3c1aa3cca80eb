// One session in the page: the picture, its controls, and what the agent thinks.

import { h, put } from "../dom.js";
import { controls } from "./controls.js";
import { detailsPanel } from "./details.js";
import { framesPicture } from "./frames_picture.js";
import { hockeyPicture } from "./hockey.js";
import { playerKeys } from "./keys.js";
import { matchNote } from "./match_note.js";
import { meter } from "./meter.js";
import { openSession } from "./session.js";

/** Play in `container`; `query` is that of the session. Returns a function that ends it. */
export function stage(container, query) {
  const status = h("p", { class: "play-status", role: "status" }, "Starting the session …");
  const picture = h("div", { class: "play-picture" }), side = h("div", { class: "play-side" }), below = h("div");
  put(container, h("div", { class: "play-stage" }, h("div", { class: "play-main" }, status, picture, below), side));
  let parts = null, waiting = null, ended = false;

  const session = openSession(query, {
    onLoading: () => { status.textContent = "Loading the agent: this takes some seconds …"; },
    onReady: (facts) => { status.hidden = true; parts = build(facts); },
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
  }

  function stopped(sentence) {
    ended = true;
    status.hidden = false;
    put(status, h("span", { class: "bad" }, sentence), " ",
      h("button", { type: "button", onclick: () => { end = stage(container, query); } }, "Start again"));
  }
  let end = () => { ended = true; session.close(); };
  return () => end();
}

function label({ human, match, world }) {
  if (human) return "Hockey: you play against the agent";
  return `${world}: ${match ? match.players.join(" against ") : "the agent plays"}`;
}
