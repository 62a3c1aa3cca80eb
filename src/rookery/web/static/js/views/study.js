// A study: trials as they come, what they found, and what matters.

import { get, part } from "../api.js";
import { card, h, put, radios } from "../dom.js";
import { addressState } from "../address_state.js";
import { poll } from "../stream.js";
import { dotPlot } from "../study/dot_plot.js";
import { historyLayers, trialText } from "../study/history_plot.js";
import { showBest, showImportances, showProgress } from "../study/study_head.js";
import { curvePlot, parallelCoordinates, paretoPlot, slicePlots } from "../study/study_plots.js";
import { trialStore } from "../study/trial_store.js";
import { trialTable } from "../study/trial_table.js";

const PARTS = ["head", "history", "best", "importances", "curves", "pareto", "parallel", "slices", "table"];

export async function show(container, { params: { place, name }, signal }) {
  document.title = `${name} · rookery`;
  const path = `/api/studies/${part(place)}/${part(name)}`, ask = (what = "") => get(path + what, {}, signal);
  const store = trialStore(path, signal);
  let [study] = await Promise.all([ask(), store.readResults()]);
  const rest = Promise.all([ask("/curves"), store.readParams(), ask("/importances")]); // read while results are drawn
  const parts = layout(container), page = studyPage(parts, store, path, signal);
  page.progress(study);
  page.results(study);
  container.dataset.trials = store.length; // for tests that wait until the trials are drawn
  const [{ curves }, , shares] = await rest;
  page.curves(curves, study);
  page.params(study, shares);
  container.dataset.complete = "true"; // or everything is

  const end = poll(signal, async () => {
    const isNew = await store.refresh();
    if (!isNew && study.state !== "running") return 4000;
    study = await ask();
    page.progress(study);
    const [found, next] = await Promise.all([ask("/curves"), ask("/importances")]);
    page.curves(found.curves, study);
    if (isNew) page.results(study);
    if (isNew) page.params(study, next);
    container.dataset.trials = store.length;
    return study.state === "running" ? 1500 : 4000;
  });
  return () => {
    end();
    page.destroy();
    for (const flag of ["trials", "complete"]) delete container.dataset[flag];
  };
}

/** The parts of the page: `results` draws what is known without the parameters, `params` the rest. */
function studyPage(parts, store, path, signal) {
  const { state: chosen, change } = addressState({ x: "trials", values: "all" });
  const table = trialTable(parts.table, path, signal);
  const tell = (i) => trialText(store, i), pick = (i) => table.reveal(store.number[i]);
  const label = "The value of each trial, and the best so far";
  const history = dotPlot(parts.history, { label, height: 280, tell, pick });
  const parallel = parallelCoordinates(parts.parallel), slices = slicePlots(parts.slices, tell, pick);
  const curves = curvePlot(parts.curves), pareto = paretoPlot(parts.pareto, tell, pick);
  let maximise = true;

  function drawHistory() {
    history.set(historyLayers(store, maximise, chosen.x === "time", chosen.values === "all"));
  }

  parts.history.before(choices(chosen, (values) => { change(values); drawHistory(); }));
  return {
    progress(study) { showProgress(parts.head, study); },
    results(study) {
      maximise = study.maximise[0] ?? true;
      showBest(parts.best, study, store);
      drawHistory();
      pareto.set(store, study);
    },
    params(study, shares) {
      showBest(parts.best, study, store);
      showImportances(parts.importances, shares);
      parallel.set(store, maximise);
      slices.set(store);
      table.set(store, study);
    },
    curves(found, study) { curves.set(found, study.best_trial); },
    destroy() { for (const one of [table, history, parallel, slices, curves, pareto]) one.destroy(); },
  };
}

function layout(container) {
  const parts = Object.fromEntries(PARTS.map((name) => [name, h("div")]));
  parts.slices.className = "slices";
  put(container, parts.head,
    h("div", { class: "study-top" },
      card("Value of each trial", parts.history), h("section", { class: "card best" }, parts.best)),
    h("div", { class: "study-pair" },
      card("Importances", parts.importances), card("Intermediate values", parts.curves)),
    parts.pareto,
    card("Parallel coordinates", parts.parallel),
    card("Value over each parameter", parts.slices),
    h("section", {}, h("h2", {}, "Trials"), parts.table));
  return parts;
}

function choices(chosen, change) {
  const key = (name, text) => [h("i", { class: `key ${name}` }), `${text} `];
  return h("div", { class: "row plot-tools" },
    radios("x", "x axis", [["trials", "By trial"], ["time", "By time"]], chosen.x, change),
    radios("values", "Range of values", [["all", "All values"], ["usual", "Without outliers"]], chosen.values, change),
    h("span", { class: "small muted keys" },
      key("best", "best so far"), key("pruned", "pruned"), key("failed", "failed")));
}
