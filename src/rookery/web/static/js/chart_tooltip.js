// What the curves of a chart are at the cursor.

import { h, put } from "./dom.js";

const MOST = 12; // lines

/** A plugin of uPlot: x, and the values of all named curves, the largest first, the one nearest to the cursor bold. */
export function tooltip({ xText, yText }) {
  const box = h("div", { class: "tooltip", hidden: true });

  function follow(plot) {
    const { idx, left, top } = plot.cursor, lines = idx == null || left < 0 ? [] : linesAt(plot, idx, top);
    box.hidden = lines.length === 0;
    if (box.hidden) return;
    put(box, h("b", {}, `${plot.series[0].label} ${xText(plot.data[0][idx])}`), lines.map(row));
    place(plot, box, left, top);
  }

  function row({ near, colour, label, told }) {
    const swatch = h("i", { class: "swatch", style: { background: colour } });
    return h("div", { class: near && "near" }, swatch, h("span", { class: "name" }, label), h("span", {}, yText(told)));
  }

  return {
    hooks: {
      init: [(plot) => {
        plot.over.append(box);
        plot.over.addEventListener("mouseleave", () => { box.hidden = true; });
      }],
      setCursor: [follow],
    },
  };
}

function linesAt(plot, idx, top) {
  const lines = [];
  plot.series.forEach((one, i) => {
    const value = i > 0 && one.show && one.named ? nearest(plot.data[i], idx) : null;
    if (value === null) return;
    const away = Math.abs(plot.valToPos(value, one.scale) - top), told = one.told ? one.told(idx) : value;
    lines.push({ label: one.label, colour: one.colour, value, told, away });
  });
  const closest = [...lines].sort((a, b) => a.away - b.away).slice(0, MOST);
  if (closest.length > 1) closest[0].near = true;
  return closest.sort((a, b) => b.value - a.value);
}

/** The known value next to a place: curves whose x differ share one column of x, with gaps. */
function nearest(values, idx) {
  for (let away = 0; away < values.length; away++) {
    const value = values[idx - away] ?? values[idx + away];
    if (value !== null && value !== undefined) return value;
    if (idx - away < 0 && idx + away >= values.length) break;
  }
  return null;
}

function place(plot, box, left, top) {
  const room = plot.over.clientWidth, width = box.offsetWidth, height = box.offsetHeight;
  box.style.left = `${left + width + 24 > room ? Math.max(0, left - width - 12) : left + 12}px`;
  box.style.top = `${Math.max(0, Math.min(top + 8, plot.over.clientHeight - height))}px`;
}
