// What of the runs is compared: the metric, the axis, smoothing, bands over seeds.

import { h, put } from "../dom.js";

const BAND = "Runs that differ in their seed alone as one curve: interquartile mean with its 95 % bootstrap interval";
const AXES = [["steps", "Steps"], ["time", "Time"], ["episodes", "Episodes"]];

/** `state` is read, `change(values)` is told what was chosen. Returns {element, setMetrics(names)}. */
export function compareControls(state, change) {
  const metric = h("select", { onchange: () => change({ metric: metric.value }) });
  const axis = h("fieldset", { class: "choice" }, h("legend", {}, "Axis"),
    AXES.map(([value, title]) => h("label", {}, h("input", {
    type: "radio", name: "x", value, checked: state.x === value, onchange: () => change({ x: value }),
  }), title)));
  const amount = h("output", { class: "mono" }, state.smoothing.toFixed(2));
  const smoothing = h("input",
    { type: "range", min: 0, max: 0.99, step: 0.01, value: state.smoothing, oninput: smooth });
  const seeds = h("input", {
    type: "checkbox", checked: state.bands === "seeds",
    onchange: () => change({ bands: seeds.checked ? "seeds" : "none" }),
  });
  const element = h("div", { class: "row compare-controls" },
    h("label", {}, "Metric", metric), axis, h("label", { class: "row needs-server" }, "Smoothing", smoothing, amount),
    h("label", { class: "needs-bands", title: BAND }, seeds, " Seeds as one band"));

  function smooth() {
    amount.textContent = Number(smoothing.value).toFixed(2);
    change({ smoothing: Number(smoothing.value) });
  }

  return {
    element,
    setMetrics(names) {
      const all = names.includes(state.metric) || !state.metric ? names : [state.metric, ...names];
      put(metric, all.map((name) => h("option", { value: name, selected: name === state.metric }, name)));
    },
  };
}
