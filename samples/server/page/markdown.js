// Markdown as elements, made by createElement and textContent alone, while the text grows: a block whose source stays keeps its element.
// It reads what models write: headings, lists, quotes, tables, code, rules, emphasis, links. HTML stays text. Each step is linear in the text, and
// nesting is bounded, so no text costs more than its length.
import { copyButton, make } from "./dom.js";
import { lineOf } from "./inline.js";

const kMost = 100_000, kSignsMax = 8_000; // characters that are read, and signs among them; the rest is shown as it is
const kPiece = 8192; // of that rest
const kDeep = 8; // quotes and lists within each other

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

function readTable(lines, i) {
  const head = cells(lines[i]);
  const align = (lines[i + 1] === undefined ? [] : cells(lines[i + 1])).map((dashes) =>
    dashes.endsWith(":") ? (dashes.startsWith(":") ? "center" : "right") : "");
  const rows = [];
  let end = Math.min(i + 2, lines.length);
  for (; end < lines.length && !isBlank(lines[end]) && !begins(lines[end]); ++end) rows.push(cells(lines[end]).slice(0, head.length));
  return { block: { kind: "table", head, align, rows }, end };
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
  return { block: { kind: "code", name: info.split(/\s/, 1)[0].slice(0, 40), text: text.join("\n") }, end };
}

function readQuote(lines, i, deep, open) {
  const inner = [];
  let end = i;
  for (; end < lines.length && isQuote(lines[end]); ++end) inner.push(lines[end].replace(/^ {0,3}> ?/, ""));
  return { block: { kind: "quote", blocks: read(inner, deep + 1, open && end === lines.length) }, end };
}

// Items of one kind. What is indented by two and more belongs to the item before, as models write it.
function readList(lines, i, deep, open) {
  const kindOf = (marker) => (/\d/.test(marker) ? marker.at(-1) : marker);
  const [, space, marker] = kItem.exec(lines[i]);
  const base = indentOf(space);
  const list = { kind: "list", ordered: /\d/.test(marker), first: parseInt(marker, 10) || 0, items: [] };
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
        inner.push("");
        end = next - 1;
      } else if (indentOf(line) >= base + 2) {
        inner.push(line.slice(Math.min(width, /^[ \t]*/.exec(line)[0].length)));
      } else if (begins(line) || isBlank(inner.at(-1))) {
        break;
      } else {
        inner.push(line);
      }
    }
    list.items.push({ lines: inner });
    let next = end; // blank lines between items
    while (next < lines.length && isBlank(lines[next])) ++next;
    if (next < lines.length && isItem(lines[next]) && indentOf(lines[next]) < base + 2) end = next;
  }
  list.items.forEach((item, n) => {
    const check = /^\[([ xX])\](?: |$)/.exec(item.lines[0]);
    if (check) item.lines[0] = item.lines[0].slice(check[0].length), (item.checked = check[1] !== " ");
    item.blocks = read(item.lines, deep + 1, open && end === lines.length && n === list.items.length - 1);
  });
  return { block: list, end };
}

function readHeading(lines, i) {
  const text = lines[i].trim();
  const level = /^#+/.exec(text)[0].length;
  let end = text.length;
  while (end > level && text[end - 1] === "#") --end;
  if (end > level && text[end - 1] !== " ") end = text.length;
  return { block: { kind: "heading", level, text: text.slice(level, end).trim() }, end: i + 1 };
}

function readOne(lines, i, deep, open) {
  const line = lines[i];
  if (fenceOf(line)) return readCode(lines, i);
  if (isHeading(line)) return readHeading(lines, i);
  if (isRule(line)) return { block: { kind: "rule" }, end: i + 1 };
  if (deep < kDeep && isQuote(line)) return readQuote(lines, i, deep, open);
  if (deep < kDeep && isItem(line)) return readList(lines, i, deep, open);
  if (isTable(lines, i, open)) return readTable(lines, i);
  let end = i + 1;
  while (end < lines.length && !isBlank(lines[end]) && (deep >= kDeep || !begins(lines[end])) && !isTable(lines, end, open)) ++end;
  return { block: { kind: "text", text: lines.slice(i, end).map((l) => l.trimStart()).join("\n") }, end };
}

function read(lines, deep, open) {
  const out = [];
  for (let i = 0; i < lines.length;) {
    if (isBlank(lines[i])) {
      ++i;
      continue;
    }
    const { block, end } = readOne(lines, i, deep, open);
    block.source = deep === 0 ? lines.slice(i, end).join("\n") : "";
    block.open = open && end >= lines.length;
    out.push(block);
    i = end;
  }
  return out;
}

// ---- elements ----

function tableOf(block) {
  const table = make("table");
  const row = (tag, list, open) => {
    const tr = make("tr");
    list.forEach((text, i) => {
      const cell = make(tag, tag === "th" ? { scope: "col" } : {});
      if (block.align[i]) cell.className = block.align[i];
      cell.append(...lineOf(text, open && i === list.length - 1));
      tr.append(cell);
    });
    const rest = block.head.length - list.length;  // one cell: a row costs no more than its own text
    if (rest > 0) tr.append(make(tag, { colspan: String(rest) }));
    return tr;
  };
  const head = make("thead"), body = make("tbody");
  head.append(row("th", block.head, false));
  block.rows.forEach((r, i) => body.append(row("td", r, block.open && i === block.rows.length - 1)));
  table.append(head, body);
  const around = make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Table" });
  around.append(table);
  return around;
}

function codeOf(block) {
  const around = make("div", { class: "code" });
  const bar = make("div", { class: "codebar" });
  const text = make("code", {}, block.text);
  bar.append(make("span", {}, block.name), copyButton(() => text.textContent, "Copy the code"));
  const pre = make("pre", { tabindex: 0, role: "region", "aria-label": block.name === "" ? "Code" : `Code, ${block.name}` });
  pre.append(text);
  around.append(bar, pre);
  return around;
}

function listOf(block) {
  const list = make(block.ordered ? "ol" : "ul", block.ordered && block.first !== 1 ? { start: block.first } : {});
  for (const item of block.items) {
    const li = make("li");
    if (item.checked !== undefined) {
      li.className = "check";
      li.append(make("span", { role: "img", "aria-label": item.checked ? "done" : "to do" }, item.checked ? "☑" : "☐"));
    }
    li.append(...item.blocks.map(elementOf));
    list.append(li);
  }
  return list;
}

function elementOf(block) {
  if (block.kind === "code") return codeOf(block);
  if (block.kind === "table") return tableOf(block);
  if (block.kind === "list") return listOf(block);
  if (block.kind === "rule") return make("hr");
  if (block.kind === "plain") return make("div", { class: "plain" }, block.text);
  const tag = { heading: "h3", quote: "blockquote", text: "p" }[block.kind];
  const element = make(tag, block.kind === "heading" ? { class: `h${block.level}` } : {});
  element.append(...(block.blocks ? block.blocks.map(elementOf) : lineOf(block.text, block.open)));
  return element;
}

// Code that only grew keeps its element, and what is selected in it.
function grow(shown, block) {
  const before = shown.block;
  if (block.kind !== "code" || before.kind !== "code" || before.name !== block.name || !block.text.startsWith(before.text)) return false;
  const code = shown.element.querySelector("code");
  if (code.firstChild) code.firstChild.appendData(block.text.slice(before.text.length));
  else code.textContent = block.text;
  return true;
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
    this.shown = []; // {block, element}
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
    blocks.forEach((block, i) => {
      const shown = this.shown[i];
      if (shown && shown.block.kind === block.kind && shown.block.source === block.source && shown.block.open === block.open) return;
      if (shown && grow(shown, block)) return void (shown.block = block);
      const element = elementOf(block);
      if (shown) shown.element.replaceWith(element);
      else this.element.append(element);
      this.shown[i] = { block, element };
    });
    for (const { element } of this.shown.splice(blocks.length)) element.remove();
  }
}
