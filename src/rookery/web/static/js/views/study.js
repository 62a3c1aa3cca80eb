// A study: trials as they come, what they found, and what matters.

import { get, part } from "../api.js";
import { h, put } from "../dom.js";
import { addressState } from "../address_state.js";
import { onceVisible, poll } from "../study/polling.js";
import { dotPlot } from "../study/dot_plot.js";
import { curveLayers, historyLayers, paretoLayers, sliceLayers, trialText } from "../study/history_plot.js";
import { parallelPlot } from "../study/parallel_plot.js";
import { showBest, showImportances, showProgress } from "../study/study_head.js";
import { trialStore } from "../study/trial_store.js";
import { trialTable } from "../study/trial_table.js";
import { number } from "../format.js";

const MOST_SLICES = 12;

export async function show(container, { params: { place, name }, signal }) {
  document.title = `${name} · rookery`;
  const path = `/api/studies/${part(place)}/${part(name)}`, store = trialStore(path, signal), { state: chosen, change } = addressState({ x: "trials", values: "all" });
  const parts = layout(container), ends = [];
  let [study] = await Promise.all([get(path, {}, signal), store.refresh()]);
  const table = trialTable(parts.table, path, signal);
  const tell = (i) => trialText(store, i), pick = (i) => table.reveal(i);
  const history = dotPlot(parts.history, { label: "The value of each trial, and the best so far", height: 280, tell, pick });
  const parallel = parallelPlot(parts.parallel, { label: "Each trial as a line over its parameters" });
  const slices = slicePlots(parts.slices, tell, pick), curves = curvePlot(parts.curves), pareto = paretoPlot(parts.pareto, tell, pick);
  parts.history.before(choices(chosen, (values) => { change(values); drawHistory(); }));
  ends.push(table.destroy, history.destroy, parallel.destroy, slices.destroy, curves.destroy, pareto.destroy);

  const drawHistory = () => history.set(historyLayers(store, study.maximise[0] ?? true, chosen.x === "time", chosen.values === "all"));

  function draw() {
    showProgress(parts.head, study);
    drawHistory();
    table.set(store, study.params, study);
    parallel.set(store, study.params, study.maximise[0] ?? true);
    slices.set(store, study.params);
    pareto.set(store, study);
    container.dataset.trials = store.length; // for whoever waits until everything is there
  }

  async function more() {
    const best = study.verified_trial ?? study.best_trial;
    const [found, shares, lines] = await Promise.all([
      best === null ? null : get(`${path}/trials/details`, { numbers: best }, signal), get(`${path}/importances`, {}, signal), get(`${path}/curves`, {}, signal),
    ]);
    showBest(parts.best, study, withParams(found?.trials[best], study, store, best));
    showImportances(parts.importances, shares);
    curves.set(lines.curves, study.best_trial);
    container.dataset.complete = "true";
  }

  draw();
  await more();
  ends.push(poll(signal, async () => {
    const isNew = await store.refresh();
    if (!isNew && study.state !== "running") return 4000;
    study = await get(path, {}, signal);
    if (isNew) draw();
    else showProgress(parts.head, study);
    await more();
    return study.state === "running" ? 1500 : 4000;
  }));
  return () => {
    for (const end of ends) end();
    for (const name of ["trials", "complete"]) delete container.dataset[name];
  };
}

function layout(container) {
  const parts = Object.fromEntries(["head", "history", "best", "importances", "curves", "pareto", "parallel", "slices", "table"].map((name) => [name, h("div")]));
  parts.slices.className = "slices";
  put(container, parts.head,
    h("div", { class: "study-top" }, h("section", { class: "card" }, h("h2", {}, "Value of each trial"), parts.history), h("section", { class: "card best" }, parts.best)),
    h("div", { class: "study-pair" },
      h("section", { class: "card" }, h("h2", {}, "Importances"), parts.importances),
      h("section", { class: "card" }, h("h2", {}, "Intermediate values"), parts.curves)),
    parts.pareto,
    h("section", { class: "card" }, h("h2", {}, "Parallel coordinates"), parts.parallel),
    h("section", { class: "card" }, h("h2", {}, "Value over each parameter"), parts.slices),
    h("section", {}, h("h2", {}, "Trials"), parts.table));
  return parts;
}

function choices(chosen, change) {
  const radio = (name, legend, options) => h("fieldset", { class: "choice" }, h("legend", {}, legend), options.map(([value, text]) => h("label", {},
    h("input", { type: "radio", name, value, checked: chosen[name] === value, onchange: () => change({ [name]: value }) }), text)));
  return h("div", { class: "row plot-tools" }, radio("x", "x axis", [["trials", "By trial"], ["time", "By time"]]), radio("values", "Range of values", [["all", "All values"], ["usual", "Without outliers"]]),
    h("span", { class: "small muted keys" }, h("i", { class: "key best" }), "best so far ", h("i", { class: "key pruned" }), "pruned ", h("i", { class: "key failed" }), "failed"));
}

/** The settings of a trial of another program, which did not record them: its parameters. */
function withParams(details, study, store, trial) {
  const place = store.placeOf(trial);
  const params = Object.fromEntries(study.params.map(({ name, choices: list }) => [name, store.params[name]?.[place] ?? null]).filter(([, value]) => value !== null)
    .map(([name, value]) => { const list = study.params.find((one) => one.name === name).choices; return [name, list ? list[value] : value]; }));
  return details && { ...details, params };
}

function slicePlots(container, tell, pick) {
  const plots = new Map();
  return {
    set(store, params) {
      for (const param of params.slice(0, MOST_SLICES)) {
        if (!plots.has(param.name)) {
          const figure = h("figure", {}, h("figcaption", { class: "small mono" }, param.name));
          container.append(figure);
          plots.set(param.name, { plot: dotPlot(figure, { label: `Value over ${param.name}`, height: 190, tell, pick }), seen: onceVisible(figure) });
        }
        const { plot, seen } = plots.get(param.name);
        seen(() => plot.set(sliceLayers(store, param)));
      }
    },
    destroy() { for (const { plot } of plots.values()) plot.destroy(); },
  };
}

function curvePlot(container) {
  let owner = () => null, all = null, plot = null;
  return {
    set(curves, best) {
      if (!curves.length) return put(container, h("p", { class: "muted" }, "No trial has reported values before its end."));
      if (!plot) put(container);
      plot ??= dotPlot(container, { label: "Intermediate values of the best and the latest trials", height: 260, xLabel: "steps", tell: (i) => `trial ${owner(i)?.trial} (${owner(i)?.state}): ${number(all.y[i])}` });
      const made = curveLayers(curves, best);
      [owner, all] = [made.owner, made.all];
      return plot.set(made.shown);
    },
    destroy() { plot?.destroy(); },
  };
}

function paretoPlot(container, tell, pick) {
  let plot = null, picks = null;
  return {
    set(store, study) {
      if (study.maximise.length < 2 || !study.front) return;
      const pair = () => picks.map((one) => Number(one.value)), draw = () => plot.set(paretoLayers(store, study.front, pair()));
      if (!plot) {
        const option = (k) => h("option", { value: k }, `Value ${k + 1} (${study.maximise[k] ? "maximise" : "minimise"})`);
        picks = ["across", "upwards"].map((way, k) => h("select", { "aria-label": `Objective ${way}`, onchange: () => draw() }, study.maximise.map((_, j) => option(j))));
        picks.forEach((one, k) => { one.value = String(k); });
        container.append(h("section", { class: "card" }, h("h2", {}, "Pareto front"), h("div", { class: "row plot-tools" }, picks), h("div", { class: "plot" })));
        plot = dotPlot(container.querySelector(".plot"), { label: "Two objectives, and the trials that no other beats in both", height: 300, tell, pick });
        for (const one of picks) one.onchange = () => draw();
      }
      draw();
    },
    destroy() { plot?.destroy(); },
  };
}
