// Markdown as elements, made by createElement and textContent alone, while the text grows: a block whose source stays keeps its element, and one that
// has blocks inside (a list, an item, a quote, a table) as long as they only grow.
// It reads what models write: headings, lists, quotes, tables, code, rules, emphasis, links. HTML stays text. Each step is linear in the text, and
// nesting is bounded, so no text costs more than its length.
import { copyButton, make } from "./dom.js";
import { lineOf } from "./inline.js";

const kMost = 100_000, kSignsMax = 8_000; // characters that are read, and signs among them; the rest is shown as it is
const kPiece = 8192; // of that rest
const kDeep = 8; // quotes and lists within each other
const kFormula = 100; // lines

// ---- blocks ----

const kItem = /^([ \t]*)([-*+]|\d{1,9}[.)])(?:[ \t]|$)/;
const kRule = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const kDashes = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const kDashesSoFar = /^[ \t|:-]+$/;

const isBlank = (line) => line.trim() === "";
const isShort = (line) => line.length < 1000;
// [fence, what stands after it]; null: the line begins no code.
function fenceOf(line) {
  const found = /^ {0,3}(`{3,}|~{3,})/.exec(line);
  const info = found ? line.slice(found[0].length) : "";
  return !found || (found[1][0] === "`" && info.includes("`")) ? null : [found[1], info.trim()];
}
const isRule = (line) => isShort(line) && kRule.test(line);
const isHeading = (line) => /^ {0,3}#{1,6}(?:[ \t]|$)/.test(line);
const isQuote = (line) => /^ {0,3}>/.test(line);
const isItem = (line) => kItem.test(line) && !isRule(line);
const indentOf = (line) => /^[ \t]*/.exec(line)[0].replaceAll("\t", "    ").length;
const begins = (line) => fenceOf(line) !== null || isHeading(line) || isQuote(line) || isItem(line) || isRule(line);

function cells(line) {
  let text = line.trim();
  if (text.startsWith("|")) text = text.slice(1);
  const out = [""];
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === "\\" && text[i + 1] === "|") out[out.length - 1] += text[++i];
    else if (text[i] === "|") out.push("");
    else out[out.length - 1] += text[i];
  }
  if (out.length > 1 && out.at(-1).trim() === "") out.pop();
  return out.map((cell) => cell.trim());
}

function isTable(lines, i, open) {
  if (!lines[i].includes("|") || !isShort(lines[i])) return false;
  const next = lines[i + 1];
  const grows = open && i + 2 >= lines.length && lines[i].trimStart().startsWith("|");
  if (next === undefined) return grows;
  if (grows && (next === "" || (isShort(next) && kDashesSoFar.test(next)))) return true;
  return isShort(next) && kDashes.test(next) && cells(next).length === cells(lines[i]).length;
}

function readTable(lines, i, open) {
  const head = cells(lines[i]);
  const align = (lines[i + 1] === undefined ? [] : cells(lines[i + 1])).map((dashes) =>
    dashes.endsWith(":") ? (dashes.startsWith(":") ? "center" : "right") : "");
  const begin = Math.min(i + 2, lines.length), columns = head.length;
  let end = begin;
  while (end < lines.length && !isBlank(lines[end]) && !begins(lines[end])) ++end;
  const inner = lines.slice(begin, end).map((source, n) =>
    ({ kind: "row", source, cells: cells(source).slice(0, columns), columns, align, open: open && begin + n === lines.length - 1 }));
  return { block: { kind: "table", shell: lines.slice(i, begin).join("\n"), head, align, inner }, end };
}

function readCode(lines, i) {
  const [fence, info] = fenceOf(lines[i]);
  const indent = indentOf(lines[i]);
  const text = [];
  let end = i + 1, closed = false;
  for (; end < lines.length && !closed; ++end) {
    const line = lines[end].trim();
    closed = line.length >= fence.length && indentOf(lines[end]) < 4 && line === fence[0].repeat(line.length);
    if (!closed) text.push(lines[end].slice(Math.min(indent, indentOf(lines[end]))));
  }
  return { block: { kind: "code", shell: info.split(/\s/, 1)[0].slice(0, 40), text: text.join("\n") }, end };
}

function readQuote(lines, i, deep, open) {
  const inner = [];
  let end = i;
  for (; end < lines.length && isQuote(lines[end]); ++end) inner.push(lines[end].replace(/^ {0,3}> ?/, ""));
  return { block: { kind: "quote", inner: read(inner, deep + 1, open && end === lines.length) }, end };
}

// Items of one kind. What is indented by two and more belongs to the item before, as models write it.
function readList(lines, i, deep, open) {
  const kindOf = (marker) => (/\d/.test(marker) ? marker.at(-1) : marker);
  const [, space, marker] = kItem.exec(lines[i]);
  const base = indentOf(space);
  const ordered = /\d/.test(marker), first = parseInt(marker, 10) || 0;
  const items = []; // the lines of each
  let end = i;
  while (end < lines.length) {
    const found = isItem(lines[end]) ? kItem.exec(lines[end]) : null;
    if (!found || kindOf(found[2]) !== kindOf(marker) || indentOf(found[1]) >= base + 2 || indentOf(found[1]) < base) break;
    const width = found[1].length + found[2].length + 1;
    const inner = [lines[end].slice(width)];
    for (++end; end < lines.length; ++end) {
      const line = lines[end];
      if (isBlank(line)) {
        let next = end + 1;
        while (next < lines.length && isBlank(lines[next])) ++next;
        if (next >= lines.length || indentOf(lines[next]) < base + 2) break;
        for (; end < next; ++end) inner.push("");
        --end;
      } else if (indentOf(line) >= base + 2) {
        inner.push(line.slice(Math.min(width, /^[ \t]*/.exec(line)[0].length)));
      } else if (begins(line) || isBlank(inner.at(-1))) {
        break;
      } else {
        inner.push(line);
      }
    }
    items.push(inner);
    let next = end; // blank lines between items
    while (next < lines.length && isBlank(lines[next])) ++next;
    if (next < lines.length && isItem(lines[next]) && indentOf(lines[next]) < base + 2) end = next;
  }
  const inner = items.map((item, n) => {
    const source = item.join("\n");
    const check = /^\[([ xX])\](?: |$)/.exec(item[0]);
    if (check) item[0] = item[0].slice(check[0].length);
    const isOpen = open && end === lines.length && n === items.length - 1;
    return { kind: "item", shell: check ? (check[1] === " " ? "to do" : "done") : "", source, open: isOpen, inner: read(item, deep + 1, isOpen) };
  });
  return { block: { kind: "list", shell: `${ordered} ${first}`, ordered, first, inner }, end };
}

function readHeading(lines, i) {
  const text = lines[i].trim();
  const level = /^#+/.exec(text)[0].length;
  let end = text.length;
  while (end > level && text[end - 1] === "#") --end;
  if (end > level && text[end - 1] !== " ") end = text.length;
  return { block: { kind: "heading", level, text: text.slice(level, end).trim() }, end: i + 1 };
}

// The line that ends the formula, \[ \] or $$ $$, which line i leaves open; else i.
function formulaEnd(lines, i, open) {
  const last = (sign) => lines[i].lastIndexOf(sign);
  const sign = last("\\[") > last("\\]") ? "\\]" : lines[i].split("$$").length % 2 === 0 ? "$$" : "";
  for (let n = i + 1; sign !== "" && n <= i + kFormula; ++n) {
    if (n === lines.length && open) return n - 1;
    if (n >= lines.length || isBlank(lines[n])) break;
    if (lines[n].includes(sign)) return n;
  }
  return i;
}

function readOne(lines, i, deep, open) {
  const line = lines[i];
  if (fenceOf(line)) return readCode(lines, i);
  if (isHeading(line)) return readHeading(lines, i);
  if (isRule(line)) return { block: { kind: "rule" }, end: i + 1 };
  if (deep < kDeep && isQuote(line)) return readQuote(lines, i, deep, open);
  if (deep < kDeep && isItem(line)) return readList(lines, i, deep, open);
  if (isTable(lines, i, open)) return readTable(lines, i, open);
  let end = formulaEnd(lines, i, open) + 1;
  while (end < lines.length && !isBlank(lines[end]) && (deep >= kDeep || !begins(lines[end])) && !isTable(lines, end, open)) end = formulaEnd(lines, end, open) + 1;
  return { block: { kind: "text", text: lines.slice(i, end).map((l) => l.trimStart()).join("\n") }, end };
}

// Blocks: `source` is all that one was read from, `shell` what its element hangs on beside the blocks inside; `open`: more of it may come.
function read(lines, deep, open) {
  const out = [];
  for (let i = 0; i < lines.length;) {
    if (isBlank(lines[i])) {
      ++i;
      continue;
    }
    const { block, end } = readOne(lines, i, deep, open);
    block.source = lines.slice(i, end).join("\n");
    block.open = open && end >= lines.length;
    out.push(block);
    i = end;
  }
  return out;
}

// ---- elements ----

function rowOf(tag, { cells: texts, align, columns, open }) {
  const tr = make("tr");
  texts.forEach((text, i) => {
    const cell = make(tag, tag === "th" ? { scope: "col" } : {});
    if (align[i]) cell.className = align[i];
    cell.append(...lineOf(text, open && i === texts.length - 1));
    tr.append(cell);
  });
  const rest = columns - texts.length; // one cell: a row costs no more than its own text
  if (rest > 0) tr.append(make(tag, { colspan: String(rest) }));
  return tr;
}

function tableOf({ head, align }) {
  const table = make("table");
  const top = make("thead"), body = make("tbody");
  top.append(rowOf("th", { cells: head, align, columns: head.length, open: false }));
  table.append(top, body);
  const around = make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Table" });
  around.append(table);
  return [around, body];
}

function codeOf({ shell: name, text }) {
  const around = make("div", { class: "code" });
  const bar = make("div", { class: "codebar" });
  const code = make("code", {}, text);
  bar.append(make("span", {}, name), copyButton(() => code.textContent, "Copy the code"));
  const pre = make("pre", { dir: "ltr", tabindex: 0, role: "region", "aria-label": name === "" ? "Code" : `Code, ${name}` });
  pre.append(code);
  around.append(bar, pre);
  return around;
}

function itemOf({ shell }) {
  const li = make("li", shell === "" ? {} : { class: "check" });
  if (shell !== "") li.append(make("span", { role: "img", "aria-label": shell }, shell === "done" ? "☑" : "☐"));
  return li;
}

function lineIn(element, block) {
  element.append(...lineOf(block.text, block.open));
  return element;
}

// By kind: the element of a block, and where the blocks inside go if that is another one.
const kElements = {
  code: codeOf,
  heading: (block) => lineIn(make("h3", { class: `h${block.level}` }), block),
  item: itemOf,
  list: ({ ordered, first }) => make(ordered ? "ol" : "ul", ordered && first !== 1 ? { start: first } : {}),
  plain: ({ text }) => make("div", { class: "plain" }, text),
  quote: () => make("blockquote"),
  row: (block) => rowOf("td", block),
  rule: () => make("hr"),
  table: tableOf,
  text: (block) => lineIn(make("p"), block),
};

// True where what is shown of a block is as it was, or only grew: its element stays, with what is selected in it.
function grow(one, block) {
  const before = one.block;
  if (block.kind !== before.kind || block.shell !== before.shell) return false;
  if (block.source === before.source && block.open === before.open) return true;
  if (block.inner) {
    fill(one.inside, one.inner, block.inner);
    return true;
  }
  if (block.kind !== "code" || !block.text.startsWith(before.text)) return false;
  const code = one.element.querySelector("code");
  if (code.firstChild) code.firstChild.appendData(block.text.slice(before.text.length));
  else code.textContent = block.text;
  return true;
}

// Makes what is shown in an element, [{block, element, inside, inner}], these blocks.
function fill(parent, shown, blocks) {
  blocks.forEach((block, i) => {
    if (shown[i] && grow(shown[i], block)) return void (shown[i].block = block);
    const [element, inside = element] = [kElements[block.kind](block)].flat();
    const one = { block, element, inside, inner: [] };
    if (block.inner) fill(inside, one.inner, block.inner);
    if (block.inner && block.kind !== "item") element.dir = "auto"; // last: the browser looks at it again with each child that comes
    if (shown[i]) shown[i].element.replaceWith(element);
    else parent.append(element);
    shown[i] = one;
  });
  for (const { element } of shown.splice(blocks.length)) element.remove();
}

// Where the part ends that is read.
function endOf(text) {
  if (text.length <= kSignsMax) return text.length;
  const signs = /[\n|*_`~[<]/g;
  for (let n = 0; n < kSignsMax; ++n) {
    if (signs.exec(text) === null || signs.lastIndex > kMost) return Math.min(text.length, kMost);
  }
  return signs.lastIndex;
}

// Shows a text in an element. `open`: more of it comes.
export class Markdown {
  constructor(element) {
    this.element = element;
    this.shown = [];
    this.text = "";
    this.open = false;
  }

  set(text, open) {
    if (text === this.text && open === this.open) return;
    this.text = text;
    this.open = open;
    const end = endOf(text), rest = text.slice(end);
    const blocks = read(text.slice(0, end).split("\n"), 0, open && rest === "");
    for (let i = 0; i < rest.length; i += kPiece) {
      const piece = rest.slice(i, i + kPiece);
      blocks.push({ kind: "plain", source: piece, text: piece, open: false });
    }
    fill(this.element, this.shown, blocks);
  }
}
