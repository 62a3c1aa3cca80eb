// Frames a second, and the time from a key to the frame that shows it, as the browser draws them.

import { h } from "../dom.js";

const KEPT = 60;

/** Counts what is drawn, and says it twice a second. `pressed(sequence, time)` notes a key. */
export function meter(canvas) {
  const text = h("span", { class: "muted small", role: "note" }), frames = [], delays = [], pressed = new Map();
  let said = 0;

  /** A frame was drawn: whoever measures hears it as the event "drawn" of the canvas. */
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
