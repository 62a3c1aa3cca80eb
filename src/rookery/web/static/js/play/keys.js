// Keyboard and touch for hockey: which of left, right, up, down, turning and shooting are held.

import { h } from "../dom.js";

const KEYS = {
  ArrowLeft: "left", KeyA: "left", ArrowRight: "right", KeyD: "right", ArrowUp: "up", KeyW: "up", ArrowDown: "down",
  KeyS: "down", KeyQ: "anticlockwise", Comma: "anticlockwise", KeyE: "clockwise", Period: "clockwise",
  Space: "shoot", Enter: "shoot",
};
const FAR = 0.28; // of the pad's size, from its middle, where a direction begins

/**
 * Listen to keys while `area` has the focus, and to fingers on the pads that `pads` holds.
 * `tell({sequence, held}, time)` is called at every change. Returns {pads, end()}.
 */
export function playerKeys(area, tell) {
  const byKey = new Set(), byTouch = new Map();
  let sequence = 0, last = "";

  function changed(time) {
    const held = [...new Set([...[...byKey].map((code) => KEYS[code]), ...[...byTouch.values()].flat()])].sort();
    if (held.join() === last) return;
    last = held.join();
    tell({ sequence: ++sequence, held }, time);
  }
  function key(event, down) {
    if (!KEYS[event.code] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault(); // or the arrows would scroll the page
    if (down) byKey.add(event.code);
    else byKey.delete(event.code);
    changed(event.timeStamp);
  }
  const release = (event) => { byKey.clear(); byTouch.clear(); changed(event.timeStamp); };
  const touch = (id, held, time) => { if (held) byTouch.set(id, held); else byTouch.delete(id); changed(time); };

  area.addEventListener("keydown", (event) => key(event, true));
  area.addEventListener("keyup", (event) => key(event, false));
  area.addEventListener("blur", release);
  return touchPads(touch);
}

/** A pad to steer with, and buttons to turn and shoot. */
function touchPads(touch) {
  const knob = h("span", { class: "knob" }), pad = h("div", { class: "pad", "aria-hidden": "true" }, knob);
  const steer = (event) => {
    const box = pad.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width - 0.5, y = (event.clientY - box.top) / box.height - 0.5;
    const [right, down] = [x, y].map((way) => 100 * Math.max(-0.5, Math.min(0.5, way)));
    knob.style.transform = `translate(${right}%, ${down}%)`;
    const held = [x < -FAR / 2 && "left", x > FAR / 2 && "right", y < -FAR / 2 && "up",
      y > FAR / 2 && "down"].filter(Boolean);
    touch("pad", held, event.timeStamp);
  };
  const leave = (event) => { knob.style.transform = ""; touch("pad", null, event.timeStamp); };
  pad.addEventListener("pointerdown", (event) => { pad.setPointerCapture(event.pointerId); steer(event); });
  pad.addEventListener("pointermove", (event) => { if (pad.hasPointerCapture(event.pointerId)) steer(event); });
  for (const kind of ["pointerup", "pointercancel"]) pad.addEventListener(kind, leave);
  const held = (key, label, text) => {
    const button = h("button", { type: "button", "aria-label": label, tabindex: -1 }, text);
    button.addEventListener("pointerdown", (event) => { event.preventDefault(); touch(key, [key], event.timeStamp); });
    for (const kind of ["pointerup", "pointercancel", "pointerleave"]) {
      button.addEventListener(kind, (event) => touch(key, null, event.timeStamp));
    }
    return button;
  };
  return h("div", { class: "pads" }, pad, h("div", { class: "pad-buttons" },
    held("anticlockwise", "Turn anticlockwise", "↺"), held("clockwise", "Turn clockwise", "↻"),
    held("shoot", "Shoot", "Shoot")));
}
