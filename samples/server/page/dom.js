// Elements and texts of the page. Foreign text gets in by textContent alone.

export const $ = (id) => document.getElementById(id);

// A screen that is touched: its keyboard comes with the focus of a field, and has no Shift+Enter.
export const touch = matchMedia("(pointer: coarse)");

// An input method makes a character of this key; Safari's event for its end has only the code.
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

// The key sends what the field has.
export const sends = (event) => event.key === "Enter" && !event.shiftKey && !touch.matches && !isComposing(event);

// An element with its attributes and a text.
export function make(tag, attributes = {}, text = "") {
  const svg = ["svg", "g", "rect", "path", "text", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== "") element.textContent = text;
  return element;
}

export function button(text, press, attributes = {}) {
  const element = make("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", press);
  return element;
}

// Pages that did not come by TLS or from this machine have no clipboard: there the text is selected and copied as by hand.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = make("textarea", { class: "unseen", readonly: "" });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("the browser does not copy");
}

export function copyButton(textOf, label) {
  const element = button("Copy", async () => {
    const said = await copy(textOf()).then(() => "Copied", () => "Not copied");
    element.focus();
    element.textContent = $("said").textContent = said;
    setTimeout(() => (element.textContent = "Copy"), 1500);
  }, { class: "quiet", "aria-label": label });
  return element;
}

// A name without what is not seen, or turns the direction of text. The two signs that join letters, or keep them apart, are of many scripts.
export function printable(name) {
  return String(name).replace(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

export function counted(n, what) {
  return `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
}

// False where there is no room for its part of the page.
export const isSeen = (element) => getComputedStyle(element).visibility === "visible";

// Shows a text, or hides its element.
export function show(element, text) {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}

// Keeps the elements of `kept` that look as before, in the order of `rows`: [name, looks, make an element]. The focus stays at its button.
export function update(parent, kept, rows) {
  const names = new Set();
  let at = parent.firstElementChild;
  for (const [name, looks, element] of rows) {
    names.add(name);
    let row = kept.get(name);
    if (!row || row.looks !== looks) {
      const made = element();
      if (row) {
        const focused = [...row.element.querySelectorAll("button")].indexOf(document.activeElement);
        if (row.element === at) at = made;
        row.element.replaceWith(made);
        made.querySelectorAll("button")[focused]?.focus();
      }
      row = { element: made, looks };
      kept.set(name, row);
    }
    if (row.element === at) at = at.nextElementSibling;
    else parent.insertBefore(row.element, at);
  }
  for (const [name, row] of kept) {
    if (names.has(name)) continue;
    row.element.remove();
    kept.delete(name);
  }
}
