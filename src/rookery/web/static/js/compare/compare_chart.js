// The curves of several runs in one chart.

import { band, chart, colour, dash } from "../chart.js";
import { AXES } from "../format.js";
import { uPlot } from "../uplot.js";

/**
 * Draw `curves`, [{id, label, x, y, low, high}], in `container`. Returns {fits(curves, state), set(curves),
 * show(index, on), focus(index), destroy(), plot}: while the same curves grow they are set again, and a zoom stays.
 */
export function compareChart(container, curves, { metric, x }, height = Math.min(480, innerHeight - 380)) {
  const { label: xLabel, text: xText } = AXES[x] ?? AXES.steps, series = [], places = [];
  curves.forEach((curve, i) => {
    places.push(series.length + 1);
    series.push({ label: curve.label, colour: colour(i), dash: dash(i) });
    if (curve.low) series.push(...band(i, series.length + 1));
  });
  const drawn = chart(container, {
    label: `${metric} of ${curves.length} runs over ${xLabel}`, series, xLabel, xText, legend: false,
    height: Math.max(260, height),
  });
  const shape = shapeOf(curves, { metric, x });
  set(curves);

  function set(next) {
    const { plot } = drawn, before = plot.data[0], scale = plot.scales.x;
    const isZoomed = before.length > 1 && (scale.min > before[0] || scale.max < before.at(-1));
    plot.setData(joined(next.map(columnsOf)), !isZoomed);
    if (isZoomed) plot.redraw();
  }

  return {
    set,
    fits: (next, state) => shapeOf(next, state) === shape,
    show(index, on) {
      const first = places[index], last = places[index + 1] ?? series.length + 1;
      for (let at = first; at < last; at++) drawn.plot.setSeries(at, { show: on });
    },
    /** Fade all curves but one; null: none. */
    focus(index) { drawn.plot.setSeries(index === null ? null : places[index], { focus: index !== null }); },
    destroy: drawn.destroy,
    plot: drawn.plot,
  };
}

const shapeOf = (curves, { metric, x }) =>
  JSON.stringify([metric, x, curves.map(({ id, label, low }) => [id, label, Boolean(low)])]);

function columnsOf(curve) {
  const rising = risingIn(curve.x), values = [curve.x, curve.y, ...(curve.low ? [curve.low, curve.high] : [])];
  return rising ? values.map((one) => rising.map((at) => one[at])) : values;
}

const joined = (columns) => (columns.length === 1 ? columns[0] : uPlot.join(columns));

/** Where x grows, or null where it always does: a run that was resumed tells some steps twice. */
function risingIn(x) {
  let last = -Infinity, isRising = true;
  const places = [];
  x.forEach((value, i) => {
    if (value > last) { places.push(i); last = value; } else isRising = false;
  });
  return isRising ? null : places;
}
