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
function copyButton(text) {
  const button = h("button", { type: "button", class: "quiet", "aria-label": `Copy: ${text}`, onclick: copy }, "Copy");
  async function copy() {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
  return button;
}

/** A command to type, with a button that copies it. */
export const command = (text) => h("div", { class: "command" }, h("code", {}, text), copyButton(text));

/** A card with a title. */
export const card = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), children);

/** A figure with what it is below it. */
export const figure = (value, label) => h("div", { class: "number-box" }, h("b", {}, value), h("span", {}, label));

/** A text for people who do not see the page. */
export const unseen = (text) => h("span", { class: "visually-hidden" }, text);

/** What may be wider than the page: it scrolls by itself, also by keys. */
export const scrolled = (label, child, cls = "scroll") =>
  h("div", { class: cls, tabindex: 0, role: "region", "aria-label": label }, child);

/**
 * A table with titles above its columns: texts, [text, class], or null for none; `rows` are its <tr>. `caption` says
 * what it shows, for people who do not see the page.
 */
export function headed(heads, rows, { caption = null, ...attributes } = {}) {
  const title = ([text, cls]) => h("th", { scope: "col", class: cls }, text);
  const head = heads.map((one) => (one === null ? h("td") : title([one].flat())));
  return h("table", attributes, caption && h("caption", { class: "visually-hidden" }, caption),
    h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
}

/** One of several to choose: `options` is [[value, text], ...]. */
export function radios(name, legend, options, chosen, change) {
  const option = ([value, text]) => h("label", {}, h("input", {
    type: "radio", name, value, checked: chosen === value, onchange: () => change({ [name]: value }),
  }), text);
  return h("fieldset", { class: "choice" }, h("legend", {}, legend), options.map(option));
}
