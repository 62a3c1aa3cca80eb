// Every episode, or a sample of them, as a point.

import { get } from "../api.js";
import { chart, colour } from "../chart.js";
import { h, put } from "../dom.js";
import { count, short } from "../format.js";

const AGAIN_MS = 5000;
const POINTS = 5000;

/** Fill the tab; returns a function that ends it. */
export function episodesTab(panel, { model }) {
  const said = h("p", { class: "muted", role: "status" }), place = h("div", { class: "grid" });
  panel.append(said, place);
  const scatters = [scatter(place, "Return of each episode"), scatter(place, "Length of each episode, in steps")];
  let timer = 0, ended = false;

  async function load() {
    try {
      const found = await get(`${model.path}/episodes`, { points: POINTS }, model.signal);
      if (ended) return;
      said.textContent = sentence(found, model.row.episodes);
      const rows = inOrder(found.x);
      [found.y, found.length].forEach((values, i) =>
        scatters[i].set([rows.map((k) => found.x[k]), rows.map((k) => values?.[k] ?? null)]));
    } catch (error) {
      if (!ended) put(said, error.message);
    }
  }

  const again = () => { timer = 0; load(); };
  const soon = (event) => { if (event.kind === "progress") timer ||= setTimeout(again, AGAIN_MS); };
  load();
  model.on("event", soon);
  return () => {
    ended = true;
    clearTimeout(timer);
    model.off("event", soon);
    scatters.forEach((one) => one.destroy());
  };
}

const inOrder = (x) => x.map((_, i) => i).sort((a, b) => x[a] - x[b]);

function scatter(place, title) {
  const figure = h("figure", { class: "panel card" }, h("figcaption", {}, title));
  place.append(figure);
  const dots = { show: true, size: 4, width: 0, fill: `${colour(0)}99` };
  return chart(figure, { label: `${title}, over steps`, xText: short, height: 300,
    series: [{ label: title, colour: colour(0), paths: () => null, points: dots }] });
}

function sentence(found, episodes) {
  const shown = found.x.length;
  if (!shown) return "No episode has ended yet.";
  return episodes > shown ? `A sample of ${count(shown)} of ${count(episodes)} episodes.`
    : `All ${count(shown)} episodes.`;
}
