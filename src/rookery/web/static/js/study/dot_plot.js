// A plot of dots and lines on a canvas, for tens of thousands of trials.

import { h } from "../dom.js";
import { scale } from "./axis_scale.js";
import { drawDots } from "./dots.js";

const LEFT = 56, RIGHT = 12, TOP = 10, BOTTOM = 26, NEAR = 14; // pixels

/**
 * A plot in `container`: `label` says what it shows, `tell(i)` gives the text for trial i, `pick(i)` is called for a
 * click. Returns {set({x, y, layers}), destroy()}: x and y are what `scale` takes, layers are drawn in their order:
 *   {kind: "dots", places, x, y, colour, size}   a dot at x[i], y[i] for each i of places
 *   {kind: "targets", places, x, y}              the same for the pointer alone
 *   {kind: "line", x, y, colour, width, alpha}   a line through the values
 *   {kind: "marks", places, x, colour}           small marks at the bottom: trials without a value
 * A colour is the name of a CSS variable, or a function of i. Unknown values are NaN.
 */
export function dotPlot(container, { label, height = 240, xLabel = "", yLabel = "", tell = null, pick = null }) {
  const canvas = h("canvas", { class: "dot-plot", role: "img", "aria-label": label });
  const note = h("div", { class: "plot-note", hidden: true, "aria-hidden": "true" });
  const box = h("div", { class: "plot-box" }, canvas, note);
  box.style.height = `${height}px`;
  container.append(box);
  let shown = null, frame = 0, size = { width: 0, height }, at = null;

  function draw() {
    frame = 0;
    if (!shown || !box.clientWidth) return;
    size = { width: box.clientWidth, height };
    const area = { x: LEFT, y: TOP, width: size.width - LEFT - RIGHT, height: height - TOP - BOTTOM };
    const pen = penFor(canvas, size), x = scale(shown.x), y = scale(shown.y);
    at = {
      area, x: (value) => area.x + x.place(value) * area.width,
      y: (value) => area.y + (1 - y.place(value)) * area.height,
    };
    drawAxes(pen, area, at, x, y, xLabel, yLabel);
    for (const layer of shown.layers) DRAW[layer.kind](pen, layer, at);
  }

  const later = () => { frame ||= requestAnimationFrame(draw); };

  function nearest(event) {
    if (!shown || !at) return null;
    const bounds = canvas.getBoundingClientRect(), mouse = [event.clientX - bounds.left, event.clientY - bounds.top];
    let best = null, least = NEAR * NEAR;
    for (const { kind, places, x, y } of shown.layers) {
      if (kind !== "dots" && kind !== "targets") continue;
      for (const i of places) {
        const dx = at.x(x[i]) - mouse[0];
        if (dx > NEAR || dx < -NEAR) continue;
        const dy = at.y(y[i]) - mouse[1], far = dx * dx + dy * dy;
        if (far < least) [best, least] = [{ i, x: at.x(x[i]), y: at.y(y[i]) }, far];
      }
    }
    return best;
  }

  function hover(event) {
    const found = tell && nearest(event);
    note.hidden = !found;
    canvas.classList.toggle("picks", Boolean(found && pick));
    if (!found) return;
    note.textContent = tell(found.i);
    const isRight = found.x > size.width / 2;
    note.style.top = `${Math.max(0, found.y - 12)}px`;
    note.style.left = isRight ? "" : `${found.x + 10}px`;
    note.style.right = isRight ? `${size.width - found.x + 10}px` : "";
  }

  const click = (event) => { const found = pick && nearest(event); if (found) pick(found.i); };
  canvas.addEventListener("pointermove", hover);
  canvas.addEventListener("pointerleave", () => { note.hidden = true; });
  canvas.addEventListener("click", click);
  const resize = new ResizeObserver(later);
  resize.observe(box);
  addEventListener("theme", later);
  return {
    set(next) { shown = next; later(); },
    destroy() { cancelAnimationFrame(frame); resize.disconnect(); removeEventListener("theme", later); box.remove(); },
  };
}

/** A pen for a canvas of this size, sharp on every screen. */
export function penFor(canvas, { width, height }) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "12px system-ui, sans-serif";
  return pen;
}

/** The colour that a CSS variable names. */
export function css(name) {
  return name.startsWith("--") ? getComputedStyle(document.documentElement).getPropertyValue(name).trim() : name;
}

function drawAxes(pen, area, at, x, y, xLabel, yLabel) {
  pen.strokeStyle = css("--line");
  pen.fillStyle = css("--text-2");
  pen.lineWidth = 1;
  pen.beginPath();
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (const [value, text] of y.marks) {
    const place = Math.round(at.y(value)) + 0.5;
    pen.moveTo(area.x, place);
    pen.lineTo(area.x + area.width, place);
    pen.fillText(text, area.x - 6, place, LEFT - 8);
  }
  pen.stroke();
  pen.textBaseline = "top";
  pen.textAlign = "center";
  let free = 0;
  for (const [value, text] of x.marks) {
    const place = Math.min(at.x(value), area.x + area.width - 10), half = Math.min(pen.measureText(text).width, 80) / 2;
    if (place - half < free) continue; // two texts over each other are none
    free = place + half + 8;
    pen.fillText(text, place, area.y + area.height + 7, 80);
  }
  pen.textAlign = "right";
  pen.textBaseline = "bottom";
  if (xLabel) pen.fillText(xLabel, area.x + area.width, area.y + area.height - 3);
  pen.textAlign = "left";
  pen.textBaseline = "top";
  if (yLabel) pen.fillText(yLabel, area.x + 4, area.y);
}

const DRAW = {
  dots(pen, layer, at) {
    drawDots(pen, { ...layer, colour: typeof layer.colour === "string" ? css(layer.colour) : layer.colour }, at);
  },

  /** Dots that are not drawn, but are found by the pointer. */
  targets() {},

  line(pen, { x, y, colour, width = 1.75, alpha = 1 }, at) {
    pen.strokeStyle = css(colour);
    pen.lineWidth = width;
    pen.globalAlpha = alpha;
    pen.lineJoin = "round";
    pen.beginPath();
    for (let i = 0; i < x.length; i += 1) if (!Number.isNaN(y[i])) pen.lineTo(at.x(x[i]), at.y(y[i]));
    pen.stroke();
    pen.globalAlpha = 1;
  },

  marks(pen, { places, x, colour }, at) {
    const bottom = at.area.y + at.area.height;
    let last = -Infinity;
    pen.fillStyle = css(colour);
    for (const i of places) {
      const px = Math.round(at.x(x[i]));
      if (px === last) continue;
      last = px;
      pen.fillRect(px, bottom - 5, 1, 5);
    }
  },
};
