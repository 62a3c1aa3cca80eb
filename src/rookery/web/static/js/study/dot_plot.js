// A plot of dots and lines on a canvas, for tens of thousands of trials.

import { h } from "../dom.js";
import { number, short } from "../format.js";

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

// Tens of thousands of dots, as pixels of one image: as shapes they would take ten times as long.

const EDGE = 4; // pixels beyond the area in which a dot at its border is still seen

/** Few dots are large ones. */
const dotSize = (count) => (count > 5000 ? 2 : count > 1000 ? 3.5 : count > 200 ? 4.5 : 6);

/** A square at x[i], y[i] for each i of `places`, later ones over earlier ones; `colour` is CSS, or a function of i. */
function drawDots(pen, { places, x, y, colour, size = dotSize(places.length) }, at) {
  const { area } = at, ratio = pen.getTransform().a, side = Math.max(1, Math.round(size * ratio));
  const width = Math.ceil((area.width + 2 * EDGE) * ratio), height = Math.ceil((area.height + 2 * EDGE) * ratio);
  const image = new ImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const one = typeof colour === "string" ? pixelOf(colour) : null;
  const place = (pixel, begin) => Math.round((pixel - begin + EDGE) * ratio - side / 2); // NaN of an unknown value
  for (const i of places) {
    const left = place(at.x(x[i]), area.x), top = place(at.y(y[i]), area.y), pixel = one ?? pixelOf(colour(i));
    const right = Math.min(width, left + side), bottom = Math.min(height, top + side), first = Math.max(0, left);
    for (let row = Math.max(0, top); row < bottom; row += 1) {
      for (let k = first; k < right; k += 1) pixels[row * width + k] = pixel;
    }
  }
  pen.drawImage(canvasOf(image), area.x - EDGE, area.y - EDGE, width / ratio, height / ratio);
}

function canvasOf(image) {
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

const pixelOfColour = new Map();

/** A colour as a pixel of an image. */
function pixelOf(colour) {
  if (!pixelOfColour.has(colour)) {
    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    pixelOfColour.set(colour, new Uint32Array(pen.getImageData(0, 0, 1, 1).data.buffer)[0]);
  }
  return pixelOfColour.get(colour);
}

// Where values are along an axis: numbers, numbers on a logarithmic scale, or choices.

/**
 * A scale from values to 0..1, with its marks: scale({low, high, log, choices, text}) gives {place(value),
 * value(place), marks: [[value, text]], text(value)}. The value of a choice is its place in the list of choices.
 */
export function scale({ low, high, log = false, choices = null, text = short }) {
  if (choices) return choiceScale(choices);
  if (!(Number.isFinite(low) && Number.isFinite(high))) [low, high] = [0, 1];
  if (log && low > 0) return logScale(low, high);
  const room = low === high ? (Math.abs(low) || 1) * 0.05 : 0, from = low - room, span = high + room - from;
  return {
    place: (value) => (value - from) / span, value: (at) => from + at * span, text: number,
    marks: steps(from, from + span).map((value) => [value, text(value)]),
  };
}

function choiceScale(choices) {
  const size = choices.length, text = (place) => choiceText(choices[place]);
  const marks = choices.map((_, i) => [i, text(i)]);
  return { place: (value) => (value + 0.5) / size, value: (at) => at * size - 0.5, marks, text, choices };
}

function choiceText(choice) {
  if (choice === null) return "none";
  return typeof choice === "object" ? JSON.stringify(choice) : String(choice);
}

function logScale(low, high) {
  const from = Math.log10(low), span = Math.log10(high) - from || 1, marks = [];
  const every = Math.max(1, Math.ceil(span / 5)), end = from + span + 1e-9;
  for (let power = Math.ceil(from - 1e-9); power <= end; power += every) {
    marks.push([10 ** power, power < -2 ? `1e${power}` : short(10 ** power)]);
  }
  if (marks.length < 2) for (const value of steps(low, high)) if (value > 0) marks.push([value, short(value)]);
  const place = (value) => (Math.log10(value) - from) / span;
  return { place, value: (at) => 10 ** (from + at * span), marks, text: number };
}

/** Round numbers between two values, about six. */
function steps(low, high) {
  const rough = (high - low) / 6, power = 10 ** Math.floor(Math.log10(rough)), found = [];
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough - power * 1e-9);
  const last = high + step * 1e-9;
  for (let k = Math.ceil(low / step - 1e-9); k * step <= last; k += 1) found.push(Number((k * step).toPrecision(12)));
  return found;
}

/** The smallest and largest of the known values at these places. */
export function extent(column, places) {
  let low = Infinity, high = -Infinity;
  for (const i of places) {
    const value = column[i]; // neither of an unknown one, NaN
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** With some room at both ends. */
export function roomy([low, high], share = 0.04) {
  const room = (high - low) * share;
  return { low: low - room, high: high + room };
}
