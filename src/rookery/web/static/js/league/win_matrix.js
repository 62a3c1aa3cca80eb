// Who beats whom: a table whose cells are shares of points, in numbers and in colour.

import { h, put } from "../dom.js";
import { percent } from "../format.js";

/** The matrix; a click on a cell calls `pick(player, against)` with the places of both in the file of the games. */
export function winMatrix(container, pick) {
  const table = h("table", { class: "win-matrix" }), note = h("p", { class: "small muted" });
  const box = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Win matrix" }, table);
  put(container, note, box);
  let shown = [];
  table.addEventListener("click", ({ target }) => {
    const cell = target.closest("td[data-games]");
    if (cell) pick(shown[cell.parentElement.rowIndex - 1].index, shown[cell.cellIndex - 1].index);
  });

  function set({ players, player_count: all, won, drawn }) {
    shown = players.slice(0, won.length);
    const some = all > shown.length ? ` These are the best ${shown.length} of ${all} players.` : "";
    note.textContent = `Score of the player in the row against the one in the column, in percent. A draw is half a win.
      Click on a cell to list its matches.${some}`;
    const heads = shown.map(({ name }, k) => h("th", { scope: "col", title: name }, k + 1, hidden(` ${name}`)));
    const rows = shown.map((player, a) => h("tr", {}, h("th", { scope: "row", title: player.name },
      h("span", { class: "rank" }, a + 1), player.name), shown.map((other, b) => cell(player, other, {
      won: won[a][b], lost: won[b][a], drawn: drawn[a][b], same: a === b,
    }))));
    put(table, h("caption", { class: "visually-hidden" }, "Win matrix"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Player"), heads)), h("tbody", {}, rows));
  }
  return { set };
}

const hidden = (text) => h("span", { class: "visually-hidden" }, text);

function cell(player, other, { won, drawn, lost, same }) {
  const games = won + drawn + lost;
  if (same || !games) return h("td", { class: "none" }, same ? hidden("itself") : "–");
  const share = (won + drawn / 2) / games;
  const title = `${player.name} against ${other.name}: ${won} won, ${drawn} drawn, ${lost} lost`;
  const made = h("td", { class: share >= 0.5 ? "ahead" : "behind", title, "data-games": games },
    Math.round(100 * share), hidden(` percent: ${title}`));
  made.style.setProperty("--strength", percent(Math.abs(share - 0.5)).replace(" ", ""));
  return made;
}
