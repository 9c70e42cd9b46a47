// Making elements. Strings become text nodes, never markup: what a model writes stays text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element with attributes, listeners (`onclick`) and children. */
export const make = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** The same for SVG. */
export const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

const waiting = new Set();

/** Calls `work` once at the next frame, however often it is asked for until then. */
export function nextFrame(work) {
  if (waiting.size === 0) {
    requestAnimationFrame(() => {
      const due = [...waiting];
      waiting.clear();
      for (const each of due) each();
    });
  }
  waiting.add(work);
}
