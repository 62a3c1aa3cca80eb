// The configuration of a run: what was set, what was chosen or measured, and what another run has instead.

import { get } from "../api.js";
import { card, h, headed, put, scrolled } from "../dom.js";

/** Fill the tab; returns a function that ends it. */
export function configTab(panel, { model, address }) {
  const search = h("input", { type: "search", placeholder: "learning_rate", oninput: () => draw() });
  const table = h("div", { class: "card" }), changed = h("div", { class: "stack" });
  const chosen = pairs(model.details.chosen);
  put(panel,
    chosen.length > 0 && card("Chosen or measured", settingsTable(chosen, "Chosen or measured")),
    changed, difference(model, address),
    h("div", { class: "row metric-search" }, h("label", {}, "Search settings", search)), table,
  );
  const all = pairs(ownSettings(model.details.config ?? {}));
  const draw = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter(([name, value]) => words.every((word) => `${name} ${value}`.toLowerCase().includes(word)));
    put(table, h("h2", {}, `Settings (${found.length})`), settingsTable(found, "Settings"));
  };
  draw();
  get(`${model.path}/changed`, {}, model.signal).then((found) => put(changed, changedSettings(found)), () => {});
}

/** Without the options of learners that the run does not use. */
function ownSettings(config) {
  const isOther = ([name, value]) => value && typeof value === "object" && "learning_rate" in value
    && name !== config.learner;
  return Object.fromEntries(Object.entries(config).filter((entry) => !isOther(entry)));
}

function changedSettings(changed) {
  const rows = Object.entries(changed).map(([name, [usual, value]]) =>
    [name, text(value ?? null), text(usual ?? null)]);
  if (!rows.length) return null;
  const title = "Other than the default";
  return card(title, settingsTable(rows, title, ["setting", "value", "default"]));
}

/** [["ppo.gamma", "0.99"], ...]: nested settings by their path, lists as one value. */
function pairs(config, prefix = "") {
  return Object.entries(config ?? {}).flatMap(([name, value]) =>
    (isNested(value) ? pairs(value, `${prefix}${name}.`) : [[prefix + name, text(value)]]));
}

const isNested = (value) =>
  value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 0;

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function settingsTable(rows, label, heads = ["setting", "value"]) {
  const body = rows.map(([name, ...values]) =>
    h("tr", {}, h("th", { scope: "row", class: "mono" }, name),
      values.map((value) => h("td", { class: "mono value" }, value))));
  return scrolled(label, headed(heads, body, { class: "settings" }));
}

/** A choice of another run, and the settings in which it differs. */
function difference(model, address) {
  const list = h("datalist", { id: "other-runs" }), place = h("div", { role: "status" });
  const input = h("input",
    { name: "with", list: "other-runs", value: address.state.with, placeholder: `${model.place}/another-run`,
      size: 30 });
  const show = async (event) => {
    event?.preventDefault();
    address.change({ with: input.value });
    if (!input.value) return put(place);
    try {
      const found = await get(`${model.path}/diff`, { with: input.value }, model.signal);
      put(place, differing(Object.entries(found.diff ?? found), model.id, input.value));
    } catch (error) {
      put(place, h("p", { class: "note warning" }, error.message));
    }
  };
  input.addEventListener("focus", () => offer(list, model), { once: true });
  if (input.value) show();
  return card("Compare settings with another run",
    h("form", { class: "row", onsubmit: show }, h("label", {}, "Run", input), list,
      h("button", {}, "Show differences")), place);
}

async function offer(list, model) {
  const { runs } = await get("/api/runs", {}, model.signal).catch(() => ({ runs: [] }));
  put(list, runs.filter((row) => row.id !== model.id).slice(0, 500).map((row) => h("option", { value: row.id })));
}

function differing(found, mine, other) {
  if (!found.length) return h("p", { class: "muted" }, "The settings are the same.");
  return settingsTable(found.map(([name, [a, b]]) => [name, text(a ?? null), text(b ?? null)]), "Differences",
    ["setting", mine, other]);
}
