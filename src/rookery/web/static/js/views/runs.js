// The table of all runs, which updates by itself.

import { addressState } from "../address_state.js";
import { get, runPath } from "../api.js";
import { command, h, link, put } from "../dom.js";
import { count } from "../format.js";
import { liveRows } from "../runs/live_rows.js";
import { runColumns, sparks, stateOf, usualColumns } from "../runs/run_columns.js";
import { filtered, isFiltered, NO_FILTERS, runToolbar } from "../runs/run_toolbar.js";
import { selectionBar } from "../runs/selection_bar.js";
import { dataTable } from "../table.js";

const DEFAULTS = { ...NO_FILTERS, sort: "created", descending: true, column: [], run: [] };

export async function show(container, { signal }) {
  const address = addressState(DEFAULTS), { state } = address, picked = new Set(state.run);
  const [live, session] = await Promise.all([
    liveRows((rows) => draw(rows, true), signal), get("/api/session", {}, signal).catch(() => ({})),
  ]);
  const curves = sparks(() => table.refresh()), all = runColumns(curves);
  const heading = h("h1", {}, "Runs"), shown = h("span", { class: "muted", role: "status" });
  const body = h("div", { class: "runs-view" });
  put(container, h("div", { class: "row heading" }, heading, shown), body);

  const toolbar = runToolbar({ filters: state, change: choose,
    columns: { all, chosen: columnKeys, choose: chooseColumns } });
  const bar = selectionBar({ picked, live, changed: pickedChanged, control: session.allow_control });
  const place = h("div", { class: "runs-table" }), welcome = noRuns();
  const stuck = stuckNote(() => choose({ state: ["stuck"] }));
  put(body, toolbar.element, stuck.element, place, bar.element, welcome);
  const isPhone = matchMedia("(max-width: 640px)").matches;
  const table = dataTable(place, {
    caption: "Runs", columns: all, shown: columnKeys(), key: (row) => row.id,
    sort: { key: state.sort, descending: state.descending },
    onSort: ({ key, descending }) => address.change({ sort: key, descending }), rowHeight: isPhone ? 54 : 44,
    picks: { picked, label: (row) => row.name, changed: pickedChanged }, none: noneMatch(),
  });

  function columnKeys() { return state.column.length ? state.column : usualColumns(innerWidth); }

  function chooseColumns(keys) {
    address.change({ column: all.map(({ key }) => key).filter((key) => keys.includes(key) || key === "name") });
    table.showColumns(columnKeys());
  }

  function choose(values) {
    address.change(values);
    draw(live.rows());
  }

  function pickedChanged() {
    address.change({ run: [...picked] });
    table.refresh();
    bar.update();
  }

  function noneMatch() {
    const clear = () =>
      choose({ ...NO_FILTERS, state: [], world: [], learner: [], tag: [], place: [], hidden: state.hidden });
    return h("div", {}, h("p", {}, "No run matches."),
      h("button", { type: "button", onclick: clear }, "Clear the filters"));
  }

  function draw(rows, isNews = false) {
    const visible = filtered(rows, state);
    for (const part of [toolbar.element, place]) part.hidden = rows.length === 0;
    welcome.hidden = rows.length > 0;
    toolbar.update(rows);
    stuck.update(state.state.length ? [] : visible, live.silent());
    table[isNews ? "update" : "set"](visible);
    bar.update();
    const words = isFiltered(state) ? `${count(visible.length)} of ${count(rows.length)}` : count(visible.length);
    if (shown.textContent !== words) shown.textContent = words;
    const running = rows.filter((row) => stateOf(row) === "running").length;
    document.title = running ? `${running} running · rookery` : "Runs · rookery";
  }

  function search(event) {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey
      || event.target.closest("input, select, textarea")) return;
    event.preventDefault();
    toolbar.search.focus();
  }

  const wide = () => { if (state.column.length === 0) table.showColumns(columnKeys()); };
  const widths = [640, 1000, 1200, 1500].map((width) => matchMedia(`(max-width: ${width}px)`));
  for (const one of widths) one.addEventListener("change", wide);
  document.addEventListener("keydown", search);
  draw(live.rows());
  return () => {
    for (const one of widths) one.removeEventListener("change", wide);
    document.removeEventListener("keydown", search);
    curves.end();
    live.end();
    table.destroy();
  };
}

// What is shown where there is no run yet.

const START = [
  ["A first run, a few seconds long:", "rookery train CartPole-v1"],
  ["Five seeds of it, to compare:", "rookery train CartPole-v1 --seeds 5"],
];

/** What to type, and where the dashboard looks. */
function noRuns() {
  const folders = h("p", { class: "small" });
  get("/api/health").then((health) => {
    const looks = `The dashboard looks in: ${health.folders.join(", ")}.`;
    folders.textContent = `${looks} Other folders: rookery dashboard --runs-dir FOLDER.`;
  }, () => {});
  const commands = START.map(([what, line]) => h("div", {}, h("p", { class: "small what" }, what), command(line)));
  return h("div", { class: "empty no-runs" }, h("h2", {}, "No runs yet"),
    h("p", {}, "Start one in a terminal. It appears here by itself."), commands, folders);
}

// Above the table: which folders do not answer, which running runs do not get on, and why.

const MOST = 2;

/** `all()` shows every run that is stuck. Returns {element, update(rows, silent)}. */
function stuckNote(all) {
  const element = h("div", { class: "note warning stuck", hidden: true });
  let told = "";
  return {
    element,
    update(rows, silent) {
      const stuck = rows.filter((row) => row.stuck);
      const words = JSON.stringify([silent, stuck.map((row) => [row.id, row.stuck])]);
      if (words === told) return;
      told = words;
      element.hidden = stuck.length + silent.length === 0;
      const button = () =>
        h("button", { type: "button", class: "quiet", onclick: all }, `All ${stuck.length} that are stuck`);
      const lines = stuck.slice(0,
        MOST).map((row) => h("div", {}, link(runPath("/runs", row.id), {}, row.name), `: ${row.stuck}`));
      put(element, silent.map(silentLine), lines, stuck.length > MOST && button());
    },
  };
}

const silentLine = (place) => h("div", {},
  `The folder ${place} does not answer: is its drive still there? Its runs are shown as they were last seen.`);
