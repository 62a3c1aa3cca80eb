// What the agent sees, thinks and does: its observation, the probabilities of its actions, and the value.

import { h } from "../dom.js";
import { number } from "../format.js";

/** The panel beside the picture: `show(frame)`. `facts` may name the actions and the numbers of an observation. */
export function detailsPanel(container, facts) {
  const value = h("b", {}, "–"), total = h("b", {}, "–"), steps = h("b", {}, "–");
  const list = (label) => h("div", { class: "play-bars", tabindex: 0, role: "group", "aria-label": label });
  const policy = list("What the policy says"), observation = list("What the agent sees");
  const box = (figure, text) => h("div", { class: "number-box" }, figure, h("span", {}, text));
  container.append(
    h("section", { class: "card" }, h("h2", {}, "Episode"),
      h("div", { class: "figures" }, box(total, "return so far"), box(steps, "steps"),
        box(value, "value of the critic"))),
    h("section", { class: "card" }, h("h2", {}, "Actions"), policy),
    h("section", { class: "card" }, h("h2", {}, "Observation"), observation),
  );
  function show(frame) {
    total.textContent = number(frame.return);
    steps.textContent = String(frame.steps);
    if (!frame.details) return;
    value.textContent = number(frame.details.value);
    showPolicy(policy, frame.details, facts.action_names ?? []);
    showObservation(observation, frame.details.observation, facts.observation_names ?? []);
  }
  return { show };
}

/** Bars of what the policy says; the action that was taken last is marked. */
function showPolicy(container, details, names) {
  const rows = [];
  const several = (details.probabilities?.length ?? 0) > 1;
  (details.probabilities ?? []).forEach((chances, part) => {
    const taken = several ? details.action?.[part] : details.action;
    chances.forEach((chance, k) =>
      rows.push([several ? `${part}: ${k}` : `action ${k}`, chance, `${(100 * chance).toFixed(1)} %`, 0, 1,
        taken === k]));
  });
  const best = Math.max(...(details.q ?? [0]));
  const [low, high] = span(details.q ?? []);
  (details.q ?? []).forEach((q, k) => rows.push([`Q of action ${k}`, q, number(q), low, high, q === best]));
  const taken = [details.action].flat(Infinity);
  (details.mean ?? []).forEach((mean, k) => {
    const std = details.std?.[k], text = std === undefined ? number(mean) : `${number(mean)} ± ${number(std)}`;
    rows.push([taken.length === names.length ? names[k] : `action ${k}`, taken[k] ?? mean, text, -1, 1, false]);
  });
  bars(container, rows);
}

function showObservation(container, parts, names) {
  const rows = [];
  for (const { name, shape, values } of parts) {
    const [low, high] = span(values);
    if (!values.length) rows.push([name || "image", null, shape.join(" × "), 0, 1, false]);
    const known = values.length === names.length;
    values.forEach((value, k) =>
      rows.push([known ? names[k] : `${name}${values.length > 1 || !name ? `[${k}]` : ""}`, value, number(value), low,
        high, false]));
  }
  bars(container, rows);
}

/** Numbers around zero, as wide as the largest. */
function span(values) {
  const most = Math.max(1, ...values.map((value) => Math.abs(value ?? 0)));
  return [-most, most];
}

/** One row for each [name, value, text, low, high, marked]; elements are used again, ten times a second. */
function bars(container, rows) {
  while (container.children.length > rows.length) container.lastChild.remove();
  rows.forEach(([name, value, text, low, high, marked], k) => {
    const row = container.children[k] ?? container.appendChild(bar());
    const zero = low < 0 ? -low / (high - low) : 0;
    const at = value === null ? zero : Math.max(0, Math.min(1, (value - low) / (high - low)));
    const [label, track, figure] = row.children, fill = track.firstChild;
    if (label.textContent !== name) label.textContent = name;
    if (figure.textContent !== text) figure.textContent = text;
    row.classList.toggle("taken", marked);
    fill.style.transform = `translateX(${100 * Math.min(zero, at)}%) scaleX(${Math.abs(at - zero)})`;
  });
}

const bar = () =>
  h("div", { class: "play-bar" }, h("span"), h("span", { class: "track", "aria-hidden": "true" }, h("i")),
    h("span", { class: "figure" }));
