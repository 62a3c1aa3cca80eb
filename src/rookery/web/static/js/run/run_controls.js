// Buttons that change a run: only where the dashboard was started with --allow-control.

import { post } from "../api.js";
import { h, put } from "../dom.js";
import { isActive } from "./run_model.js";

/** The buttons for a run, or null if nothing may be changed. */
export function controls(model, session) {
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
