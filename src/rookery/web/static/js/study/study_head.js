// The upper part of a study's page: how it goes, what it found.

import { copyButton, h, link, put } from "../dom.js";
import { count, duration, number, percent, when } from "../format.js";
import { runAddress } from "./trial_table.js";

const ORDER = ["finished", "pruned", "failed", "running", "waiting"];

/** Figures of a study that goes on. */
export function showProgress(container, study) {
  const { counts } = study, ended = counts.finished + counts.pruned + counts.failed, goals = study.maximise.map((one) => (one ? "maximise" : "minimise"));
  const about = [study.world, study.learner, goals.length > 1 ? `${goals.length} objectives: ${goals.join(", ")}` : `${goals[0] ?? ""} the value`].filter(Boolean);
  put(container,
    h("div", { class: "row study-title" }, h("h1", {}, study.name), h("span", { class: `state ${study.state.replace(/ /g, "-")}` }, study.state), h("span", { class: "muted" }, about.join(" · "))),
    h("div", { class: "card stack" },
      h("div", { class: "figures" },
        figure(study.n_trials ? `${count(ended)} of ${count(study.n_trials)}` : count(ended), "trials"),
        figure(number(study.trials_per_hour), "trials an hour"),
        figure(study.state === "running" ? duration(study.eta_seconds) : duration(study.busy_seconds), study.state === "running" ? "ETA" : "searching"),
        figure(number(study.best_value), study.best_trial === null ? "best value" : `best value, trial ${study.best_trial}`),
        study.verified_trial !== null && figure(number(study.verified_value), `with held-out seeds, trial ${study.verified_trial}`),
        study.saved_seconds >= 1 && figure(duration(study.saved_seconds), "saved by pruning")),
      bar(study),
      h("p", { class: "small muted" }, ORDER.filter((name) => counts[name]).map((name) => h("span", { class: `count-of ${name}` }, `${count(counts[name])} ${name}`)), study.updated !== null && `last change ${when(study.updated)}`),
      study.failures?.map(([reason, often]) => h("p", { class: "note error" }, `${count(often)} failed: ${reason}`))));
}

const figure = (value, label) => h("div", { class: "number-box" }, h("b", {}, value), h("span", {}, label));

function bar({ counts, n_trials: wanted, trials }) {
  const total = Math.max(wanted ?? 0, trials, 1), ended = counts.finished + counts.pruned + counts.failed;
  const parts = ORDER.filter((name) => counts[name]).map((name) => {
    const share = h("span", { class: name });
    share.style.width = `${(100 * counts[name]) / total}%`;
    return share;
  });
  return h("div", { class: "bar trials", role: "img", "aria-label": `${percent(ended / total)} of the trials have ended` }, parts);
}

/** The trial to use: the best verified one, else the best; `details` are its settings and runs. */
export function showBest(container, study, details) {
  const trial = study.verified_trial ?? study.best_trial, verified = study.verified.find((one) => one.trial === trial);
  put(container, h("h2", {}, trial === null ? "Best trial" : `Best trial: ${trial}`));
  if (trial === null) return container.append(h("p", { class: "muted" }, "No trial has finished yet."));
  const interval = verified?.interval ?? details?.interval;
  const runs = (details?.parts ?? []).filter(({ run }) => run);
  container.append(
    h("p", { class: "small" }, verified
      ? `${number(verified.value)} with ${Object.keys(verified.values ?? {}).length || ""} held-out seeds${range(interval)}: this had no part in the choice.`
      : `${number(study.best_value)} by tuning seeds${range(interval)}. The best of many noisy values is too high; no trial is verified yet.`),
    settingsTable(details?.settings ?? details?.params ?? {}),
    runs.length ? h("p", { class: "small row" }, "Runs: ", runs.map(({ name, run }) => link(runAddress(run), {}, name))) : "",
    command(`rookery study ${study.name} --export-config best.toml`));
}

const range = (interval) => (interval ? ` (95 % interval ${number(interval[0])} to ${number(interval[1])})` : "");

function settingsTable(settings) {
  const rows = Object.entries(settings).map(([name, value]) => h("tr", {}, h("th", { scope: "row", class: "mono" }, name), h("td", { class: "number mono" }, typeof value === "number" ? number(value) : typeof value === "string" ? value : JSON.stringify(value))));
  return h("div", { class: "scroll settings" }, h("table", {}, h("caption", { class: "visually-hidden" }, "Settings"), h("tbody", {}, rows)));
}

const command = (text) => h("div", { class: "command" }, h("code", {}, text), copyButton(text));

/** Shares of the parameters as bars. */
export function showImportances(container, found) {
  const shares = Object.entries(found?.shares ?? {});
  if (!shares.length) return put(container, h("p", { class: "muted" }, "Known once 8 trials have finished with different values."));
  const rows = shares.map(([name, share]) => {
    const fill = h("span");
    fill.style.width = `${100 * share}%`;
    return h("tr", {}, h("th", { scope: "row", class: "mono" }, name), h("td", { class: "share" }, h("div", { class: "bar", "aria-hidden": "true" }, fill)), h("td", { class: "number" }, percent(share)));
  });
  return put(container,
    h("table", { class: "importances" }, h("caption", {}, `By PED-ANOVA over ${count(found.trials)} trials${found.trials < 50 ? ": still vague" : ""}`), h("tbody", {}, rows)));
}
