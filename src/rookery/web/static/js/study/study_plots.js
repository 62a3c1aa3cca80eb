// The plots of a study below its history, each drawn once it is in sight.

import { h, put } from "../dom.js";
import { number } from "../format.js";
import { dotPlot } from "./dot_plot.js";
import { curveLayers, paretoLayers, sliceLayers } from "./history_plot.js";
import { parallelPlot } from "./parallel_plot.js";
import { onceVisible } from "../stream.js";

const MOST_SLICES = 12;

/** Each trial as a line over its parameters. */
export function parallelCoordinates(container) {
  const plot = parallelPlot(container, { label: "Each trial as a line over its parameters" });
  const seen = onceVisible(container);
  return {
    set(store, maximise) { seen(() => plot.set(store, maximise)); },
    destroy() { plot.destroy(); },
  };
}

/** A plot for each parameter; `tell` and `pick` are those of dotPlot. */
export function slicePlots(container, tell, pick) {
  const plots = new Map();

  function plotOf({ name }) {
    const figure = h("figure", {}, h("figcaption", { class: "small mono" }, name));
    container.append(figure);
    const plot = dotPlot(figure, { label: `Value over ${name}`, height: 190, tell, pick });
    return { plot, seen: onceVisible(figure) };
  }

  return {
    set(store) {
      for (const param of store.space.slice(0, MOST_SLICES)) {
        if (!plots.has(param.name)) plots.set(param.name, plotOf(param));
        const { plot, seen } = plots.get(param.name);
        seen(() => plot.set(sliceLayers(store, param)));
      }
    },
    destroy() { for (const { plot } of plots.values()) plot.destroy(); },
  };
}

/** Intermediate values. */
export function curvePlot(container) {
  let drawn = null, plot = null;
  const label = "Intermediate values of the best and the latest trials";

  function tell(i) {
    const { trial, state } = drawn.owner(i);
    return `trial ${trial} (${state}): ${number(drawn.y[i])}`;
  }

  return {
    set(curves, best) {
      if (!curves.length) {
        put(container, h("p", { class: "muted" }, "No trial has reported values before its end."));
        return;
      }
      if (!plot) put(container);
      plot ??= dotPlot(container, { label, height: 260, xLabel: "steps", tell });
      drawn = curveLayers(curves, best);
      plot.set(drawn.shown);
    },
    destroy() { plot?.destroy(); },
  };
}

/** Two objectives, if there are several. */
export function paretoPlot(container, tell, pick) {
  let plot = null, picks = [], given = null;
  const label = "Two objectives, and the trials that no other beats in both";

  function draw() { plot.set(paretoLayers(given.store, given.study.front, picks.map((one) => Number(one.value)))); }

  function make({ maximise }) {
    const options = () => maximise.map((isMost, k) => {
      return h("option", { value: k }, `Value ${k + 1} (${isMost ? "maximise" : "minimise"})`);
    });
    picks = ["across", "upwards"].map((way) => {
      return h("select", { "aria-label": `Objective ${way}`, onchange: draw }, options());
    });
    picks.forEach((one, k) => { one.value = String(k); });
    const box = h("div");
    container.append(h("section", { class: "card" }, h("h2", {}, "Pareto front"),
      h("div", { class: "row plot-tools" }, picks), box));
    return dotPlot(box, { label, height: 300, tell, pick });
  }

  return {
    set(store, study) {
      if (!study.front) return;
      given = { store, study };
      plot ??= make(study);
      draw();
    },
    destroy() { plot?.destroy(); },
  };
}
