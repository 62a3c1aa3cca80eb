// The upper part of a study's page: how it goes, what it found.

import { command, figure, h, link, put } from "../dom.js";
import { count, duration, number, percent, when } from "../format.js";
import { runPath } from "../api.js";

const ORDER = ["finished", "pruned", "failed", "running", "waiting"];

/** Figures of a study that continues. */
export function showProgress(container, study) {
  const { counts } = study, isRunning = study.state === "running";
  const goals = study.maximise.map((one) => (one ? "maximise" : "minimise"));
  const goal = goals.length > 1 ? `${goals.length} objectives: ${goals.join(", ")}` : `${goals[0] ?? ""} the value`;
  const about = [study.world, study.learner, goal].filter(Boolean).join(" · ");
  const known = ORDER.filter((name) => counts[name]);
  put(container,
    h("div", { class: "row study-title" }, h("h1", {}, study.name),
      h("span", { class: `state ${study.state.replace(/ /g, "-")}` }, study.state),
      h("span", { class: "muted" }, about)),
    h("div", { class: "card stack" },
      h("div", { class: "figures" }, figures(study, isRunning)),
      bar(study),
      h("p", { class: "small muted" },
        known.map((name) => h("span", { class: `count-of ${name}` }, `${count(counts[name])} ${name}`)),
        study.updated !== null && `last change ${when(study.updated)}`),
      study.failures.map(([reason, often]) => h("p", { class: "note error" }, `${count(often)} failed: ${reason}`))));
}

function figures(study, isRunning) {
  const { counts, n_trials: wanted, best_trial: best, verified_trial: verified } = study;
  const ended = count(counts.finished + counts.pruned + counts.failed);
  return [
    figure(wanted ? `${ended} of ${count(wanted)}` : ended, "trials"),
    figure(number(study.trials_per_hour), "trials an hour"),
    isRunning ? figure(duration(study.eta_seconds), "ETA") : figure(duration(study.busy_seconds), "searching"),
    figure(number(study.best_value), best === null ? "best value" : `best value, trial ${best}`),
    verified !== null && figure(number(study.verified_value), `with held-out seeds, trial ${verified}`),
    study.saved_seconds >= 1 && figure(duration(study.saved_seconds), "saved by pruning"),
  ];
}

function bar({ counts, n_trials: wanted, trials }) {
  const total = Math.max(wanted ?? 0, trials, 1), ended = counts.finished + counts.pruned + counts.failed;
  const width = (name) => `${(100 * counts[name]) / total}%`;
  const part = (name) => h("span", { class: name, style: { width: width(name) } });
  const parts = ORDER.filter((name) => counts[name]).map(part);
  const label = `${percent(ended / total)} of the trials have ended`;
  return h("div", { class: "bar trials", role: "img", "aria-label": label }, parts);
}

/** The trial to use: the best verified one, else the best. `store` may have its parameters. */
export function showBest(container, study, store) {
  const trial = study.verified_trial ?? study.best_trial, verified = study.verified.find((one) => one.trial === trial);
  put(container, h("h2", {}, trial === null ? "Best trial" : `Best trial: ${trial}`));
  if (trial === null) {
    container.append(h("p", { class: "muted" }, "No trial has finished yet."));
    return;
  }
  const interval = range(verified?.interval ?? study.best?.interval);
  const runs = (study.best?.parts ?? []).filter(({ run }) => run);
  const links = runs.map(({ name, run }) => link(runPath("/runs", run), {}, name));
  container.append(
    h("p", { class: "small" }, verified ? heldOut(verified, interval) : tuned(study, interval)),
    settingsTable(study.best?.settings ?? paramsOf(store, trial)),
    runs.length ? h("p", { class: "small row" }, "Runs: ", links) : "",
    command(`rookery study ${study.given_as} --export-config best.toml`));
}

function heldOut({ value, values }, interval) {
  const seeds = Object.keys(values ?? {}).length || "";
  return `${number(value)} with ${seeds} held-out seeds${interval}: this had no part in the choice.`;
}

function tuned({ best_value: value }, interval) {
  const warning = "The best of many noisy values is too high; no trial is verified yet.";
  return `${number(value)} by tuning seeds${interval}. ${warning}`;
}

const range = (interval) => (interval ? ` (95 % interval ${number(interval[0])} to ${number(interval[1])})` : "");

/** The parameters of a trial of another program, which did not record its settings. */
function paramsOf(store, trial) {
  const place = store.placeOf(trial), found = {};
  for (const { name, choices } of store.space) {
    const value = store.params[name]?.[place] ?? NaN;
    if (!Number.isNaN(value)) found[name] = choices ? choices[value] : value;
  }
  return found;
}

function settingsTable(settings) {
  const other = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const text = (value) => (typeof value === "number" ? number(value) : other(value));
  const rows = Object.entries(settings).map(([name, value]) => h("tr", {},
    h("th", { scope: "row", class: "mono" }, name), h("td", { class: "number mono" }, text(value))));
  return h("div", { class: "scroll settings" },
    h("table", {}, h("caption", { class: "visually-hidden" }, "Settings"), h("tbody", {}, rows)));
}

/** Shares of the parameters as bars. */
export function showImportances(container, { trials, shares }) {
  if (!Object.keys(shares).length) {
    put(container, h("p", { class: "muted" }, "Known once 8 trials have finished with different values."));
    return;
  }
  const rows = Object.entries(shares).map(([name, share]) => h("tr", {},
    h("th", { scope: "row", class: "mono" }, name),
    h("td", { class: "share" },
      h("div", { class: "bar", "aria-hidden": "true" }, h("span", { style: { width: `${100 * share}%` } }))),
    h("td", { class: "number" }, percent(share))));
  const caption = `By PED-ANOVA over ${count(trials)} trials${trials < 50 ? ": still vague" : ""}`;
  put(container, h("table", { class: "importances" }, h("caption", {}, caption), h("tbody", {}, rows)));
}
