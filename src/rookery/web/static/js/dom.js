// Elements from values. Text is always text: nothing from a run is ever parsed as HTML.

/** An element: h("a", {href, class, onclick, dataset}, "text", child, [children], null). */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace what is in an element. */
export function put(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** A link to another view, without loading the page again. */
export function link(href, attributes, ...children) {
  return h("a", { href, "data-link": true, ...attributes }, ...children);
}

/** A button that copies a text, and says so to everybody. */
export function copyButton(text) {
  const button = h("button", { type: "button", class: "quiet", "aria-label": `Copy: ${text}`, onclick: copy }, "Copy");
  async function copy() {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
  return button;
}
