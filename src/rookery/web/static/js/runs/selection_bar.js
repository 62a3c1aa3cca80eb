// Below the table while runs are selected: compare them, select their other seeds, tag or hide them.

import { post, runPath } from "../api.js";
import { h, link, put } from "../dom.js";
import { count } from "../format.js";
import { menu } from "../menu.js";
import { addressOf } from "../address_state.js";

/**
 * `picked` is the set of selected ids, `live` has the rows, `changed()` is called after another selection.
 * With `control` runs can be tagged and hidden. Returns {element, update()}.
 */
export function selectionBar({ picked, live, changed, control }) {
  const element = h("div", { class: "selection card", role: "region", "aria-label": "Selected runs", hidden: true });
  const said = h("span", { role: "status" }), compare = link("/compare", { class: "button main" });
  const others = h("button",
    { type: "button", title: "Also select the runs that differ in their seed alone", onclick: addSeeds },
    "Other seeds");
  const clear = h("button", { type: "button", class: "quiet", onclick: () => { picked.clear(); changed(); } }, "Clear");
  const hide = h("button", { type: "button", onclick: () => mark(() => ["hide", { hidden: !areHidden() }]) });
  const tag = menu("Tag", tagForm, { left: true });
  put(element, said, compare, others, control && [tag.element, hide], h("span", { class: "grow" }), clear);

  const rows = () => [...picked].map(live.find).filter(Boolean);
  const areHidden = () => rows().length > 0 && rows().every((row) => row.hidden);
  const missingSeeds = () => {
    const groups = new Set(rows().map((row) => row.group).filter(Boolean));
    return live.rows().filter((row) => groups.has(row.group) && !picked.has(row.id));
  };

  function addSeeds() {
    for (const row of missingSeeds()) picked.add(row.id);
    changed();
  }

  function tagForm() {
    const input = h("input", { "aria-label": "Tag", placeholder: "baseline", maxlength: 40, required: true });
    const has = [...new Set(rows().flatMap((row) => row.tags ?? []))];
    const remove = (name) =>
      h("button", { type: "button", class: "tag", "aria-label": `Remove the tag ${name}`,
        onclick: () => retag((tags) => tags.filter((one) => one !== name)) }, name, " ×");
    const add = (event) => {
      event.preventDefault();
      const name = input.value.trim();
      if (name) retag((tags) => [...new Set([...tags, name])]);
    };
    return [h("form", { class: "row", onsubmit: add }, input, h("button", {}, "Add")),
      has.length > 0 && h("div", { class: "row tags" }, has.map(remove))];
  }

  async function retag(change) {
    tag.close();
    await mark((row) => ["tags", { tags: change(row.tags ?? []) }]);
  }

  async function mark(what) {
    try {
      for (const [row, verb, body] of rows().map((one) => [one, ...what(one)])) {
        await post(runPath("/api/runs", row.id, `/${verb}`), body);
        live.put({ ...row, ...body });
      }
      changed();
    } catch (error) {
      said.textContent = error.message;
    }
  }

  function update() {
    const number = picked.size;
    element.hidden = number === 0;
    said.textContent = `${count(number)} selected`;
    compare.textContent = number === 1 ? "Show its curves" : `Compare ${count(number)} runs`;
    compare.setAttribute("href", addressOf("/compare", { run: [...picked] }));
    hide.textContent = areHidden() ? "Show in the table" : "Hide from the table";
    others.hidden = missingSeeds().length === 0;
  }

  return { element, update };
}
