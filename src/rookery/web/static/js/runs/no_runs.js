// What is shown where there is no run yet.

import { get } from "../api.js";
import { copyButton, h } from "../dom.js";

const START = [
  ["A first run, a few seconds long:", "rookery train CartPole-v1"],
  ["Five seeds of it, to compare:", "rookery train CartPole-v1 --seeds 5"],
];

/** What to type, and where the dashboard looks. */
export function noRuns() {
  const folders = h("p", { class: "small" });
  get("/api/health").then((health) => {
    const looks = `The dashboard looks in: ${health.folders.join(", ")}.`;
    folders.textContent = `${looks} Other folders: rookery dashboard --runs-dir FOLDER.`;
  }, () => {});
  const commands = START.map(([what, command]) =>
    h("div", {}, h("p", { class: "small what" }, what),
      h("div", { class: "command" }, h("code", {}, command), copyButton(command))));
  return h("div", { class: "empty no-runs" }, h("h2", {}, "No runs yet"),
    h("p", {}, "Start one in a terminal. It appears here by itself."), commands, folders);
}
