// Which match is played again, how it ended in its tournament, and whether the replay ends like that.

import { h } from "../dom.js";
import { count } from "../format.js";

const TEXTS = {
  null: "It is played again, with the same seed and the same players.",
  true: "The replay has ended as the match did.",
  false: "The replay has ended otherwise than the match: the world, a library or the machine is another.",
};

/** Lines above the controls; `show(frame)` keeps them as the game is. */
export function matchNote(container, { players, number, winner, length }) {
  const ended = winner === null ? "Nobody won it" : `${winner} won it`;
  const said = h("p", { class: "note", role: "status" });
  container.prepend(h("p", {}, h("b", {}, players.join(" against ")),
    `, match ${number + 1}. ${ended}, after ${count(length)} steps.`), said);
  let shown = "";

  function show({ as_recorded: same }) {
    const text = TEXTS[same];
    if (text !== shown) said.textContent = shown = text;
    said.classList.toggle("warning", same === false);
  }
  return { show };
}
