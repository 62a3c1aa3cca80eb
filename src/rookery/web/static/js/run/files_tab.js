// What a run has written: checkpoints, videos, plots and other files.

import { part } from "../api.js";
import { card, h, headed, put, scrolled } from "../dom.js";
import { bytes, count, duration, when } from "../format.js";

const MOST_VIDEOS = 24;

/** Fill the tab; returns a function that ends it. */
export function filesTab(panel, { model }) {
  let before = "";
  const draw = () => {
    const { checkpoints = [], videos = [], plots = [], files = [] } = model.details;
    const now = JSON.stringify([checkpoints.length, checkpoints.at(-1), videos, plots, files.length]);
    if (now === before) return;  // a video that plays continues
    before = now;
    put(panel, checkpointTable(checkpoints), videoList(model, videos), plotList(model, plots), fileTable(model, files));
  };
  draw();
  model.on("details", draw);
  return () => model.off("details", draw);
}

/** The address of a file of the run, by its path below the run's folder. */
const fileAddress = (model, path) => `${model.path}/files/${path.split("/").map(part).join("/")}`;
const pathOf = (file) => file.path;

function checkpointTable(checkpoints) {
  if (!checkpoints.length) return card("Checkpoints", h("p", { class: "muted" }, "None yet."));
  const rows = checkpoints.toReversed().map((one) =>
    h("tr", {}, h("td", { class: "number" }, count(one.step)), h("td", {}, when(one.time)),
    h("td", { class: "number" }, bytes(one.bytes)),
    h("td", { class: "number" }, one.seconds == null ? "" : duration(one.seconds)),
    h("td", { class: "mono" }, one.name), h("td", {}, one.kept === false ? "removed since" : "kept")));
  const heads = [["step", "number"], ["when"], ["size", "number"], ["took", "number"], ["folder"], ["state"]];
  return card("Checkpoints", scrolled("Checkpoints", headed(heads, rows)));
}

function videoList(model, videos) {
  if (!videos.length) return null;
  const players = videos.toReversed().slice(0, MOST_VIDEOS).map((video, index) => h("figure", { class: "panel" },
    player(fileAddress(model, pathOf(video)), pathOf(video), index), h("figcaption", {}, pathOf(video))));
  return card("Videos", h("div", { class: "grid" }, players));
}

/** A video, or a moving picture; the first frame of the newest ones is loaded at once. */
function player(address, path, index) {
  if (/\.(gif|webp)$/i.test(path)) return h("img", { src: address, alt: path, loading: "lazy" });
  return h("video", { controls: true, preload: index < 3 ? "metadata" : "none", src: address, "aria-label": path });
}

function plotList(model, plots) {
  if (!plots.length) return null;
  const pictures = plots.map((plot) => {
    const path = pathOf(plot), href = fileAddress(model, path);
    const image = h("img", { src: href, alt: `Plot ${path}`, loading: "lazy" });
    return h("figure", { class: "panel" }, h("a", { href, target: "_blank", rel: "noopener" }, image),
      h("figcaption", {}, path));
  });
  return card("Plots", h("div", { class: "grid" }, pictures));
}

function fileTable(model, files) {
  if (!files.length) return null;
  const opened = (file) =>
    h("a", { href: fileAddress(model, pathOf(file)), target: "_blank", rel: "noopener" }, pathOf(file));
  const rows = files.slice(0, 300).map((file) => h("tr", {}, h("td", { class: "mono" }, opened(file)),
    h("td", { class: "number" }, bytes(file.bytes)), h("td", {}, file.time ? when(file.time) : "")));
  return card("Files", scrolled("Files", headed([["file"], ["size", "number"], ["changed"]], rows)));
}
