// Draws only the rows of a table that are in sight, so that thousands cost no more than a screenful.

import { h } from "./dom.js";

const EXTRA = 12; // rows drawn beyond each edge, so that a quick scroll meets no blank

/**
 * The rows of `body` inside the scrolling `box`. All rows have one `height` in pixels. `make(row)` gives a new <tr>,
 * `update(tr, row)` brings it up to date. Elements are kept by `key(row)`: focus and scroll position survive an update.
 */
export function rowWindow(box, body, { height, key, make, update }) {
  const above = gap(), below = gap(), drawn = new Map();
  let rows = [], frame = 0;
  body.append(above, below);

  function range() {
    const top = Math.floor(box.scrollTop / height), seen = Math.ceil((box.clientHeight || innerHeight) / height);
    const from = Math.max(0, Math.min(top - EXTRA, rows.length - seen));
    return [from, Math.min(rows.length, top + seen + EXTRA)];
  }

  function draw() {
    const [from, to] = range(), wanted = rows.slice(from, to), focused = focusIn(body);
    stretch(above, from * height);
    stretch(below, (rows.length - to) * height);
    drop(new Set(wanted.map(key)));
    let place = above.nextSibling;
    wanted.forEach((row, i) => {
      const tr = elementOf(row);
      tr.setAttribute("aria-rowindex", from + i + 2);
      if (tr === place) place = tr.nextSibling;
      else body.insertBefore(tr, place);
    });
    restore(focused, box);
  }

  function elementOf(row) {
    const name = key(row), tr = drawn.get(name) ?? make(row);
    drawn.set(name, tr);
    update(tr, row);
    return tr;
  }

  function drop(wanted) {
    for (const [name, tr] of drawn) {
      if (wanted.has(name)) continue;
      tr.remove();
      drawn.delete(name);
    }
  }

  /** Show these rows in this order; what is in sight stays in sight when rows come or go above it. */
  function set(next) {
    const shift = box.scrollTop > 0 ? shiftOf(rows, next) : 0;
    rows = next;
    if (shift) {
      draw(); // first, so that there is room to scroll to
      box.scrollTop += shift * height;
    }
    draw();
  }

  function shiftOf(before, after) {
    const top = Math.floor(box.scrollTop / height);
    const seen = before.slice(top, top + Math.ceil(box.clientHeight / height));
    const places = new Map(after.map((row, i) => [key(row), i]));
    const shifts = seen.map((row, i) => [places.get(key(row)), top + i]).filter(([place]) => place !== undefined);
    const sorted = shifts.map(([place, old]) => place - old).sort((a, b) => a - b);
    return sorted.length ? sorted[sorted.length >> 1] : 0;
  }

  /** Bring a row into sight and give its element. */
  function reveal(index) {
    const head = box.querySelector("thead")?.offsetHeight ?? 0, top = index * height;
    if (top < box.scrollTop) box.scrollTop = top;
    else box.scrollTop = Math.max(box.scrollTop, top + height + head - box.clientHeight);
    draw();
    return drawn.get(key(rows[index]));
  }

  const later = () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(draw); };
  const sizes = new ResizeObserver(later);
  sizes.observe(box);
  box.addEventListener("scroll", later, { passive: true });
  return {
    set, draw, reveal,
    clear() { drop(new Set()); },
    span(columns) { for (const one of [above, below]) one.firstChild.colSpan = columns; },
    indexOf: (tr) => rows.findIndex((row) => drawn.get(key(row)) === tr),
    get rows() { return rows; },
    destroy() { cancelAnimationFrame(frame); sizes.disconnect(); },
  };
}

const gap = () => h("tr", { class: "gap", "aria-hidden": "true", hidden: true }, h("td"));

function stretch(element, pixels) {
  element.hidden = pixels <= 0;
  element.firstChild.style.height = `${Math.max(0, pixels)}px`;
}

const focusIn = (body) => (body.contains(document.activeElement) ? document.activeElement : null);

/** The element that had the focus has it again, or the table if its row is gone. */
function restore(focused, box) {
  if (!focused || document.activeElement === focused) return;
  (focused.isConnected ? focused : box).focus({ preventScroll: true });
}
