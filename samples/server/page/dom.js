// Elements and texts of the page. Foreign text gets in by textContent alone.

export const $ = (id) => document.getElementById(id);

// An element with its attributes and a text.
export function make(tag, attributes = {}, text = "") {
  const svg = ["svg", "g", "rect", "path", "text", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== "") element.textContent = text;
  return element;
}

// A name without what is not seen, or turns the direction of text.
export function printable(name) {
  return String(name).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

export function counted(n, what) {
  return `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
}

// Shows a text, or hides its element.
export function show(element, text) {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}
