// Buttons of a session: pause, step, speed, deterministic or sampled, restart with a seed.

import { h } from "../dom.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8];

/**
 * The controls; `send(order)` goes to the session. `show(frame)` keeps them as the session is. In a `replay` the seed
 * and the actions are given.
 */
export function controls(container, send, { replay = false } = {}) {
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
