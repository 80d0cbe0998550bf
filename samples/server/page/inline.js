// What Markdown has within a block: emphasis, code, links. Links are followed by their scheme; images are links, and nothing is loaded. Formulas of
// LaTeX stay as they are written.
import { make } from "./dom.js";

const kDeep = 8; // brackets within each other
const kOpeners = 32; // of emphasis that are open at once
const kSchemes = ["http:", "https:", "mailto:"];

const kFormulas = { "\\(": "\\)", "\\[": "\\]", $$: "$$" }; // their first and their last sign
const kSpecial = /[\\`*_~[!<\nh$]/g;
const kLink = /\([ \t\n]{0,4}(?:<([^<>\n]*)>|([^\s()[<]*(?:\([^\s()[]*\)[^\s()[]*)*))(?:[ \t\n]{1,4}"[^"[]*")?[ \t\n]{0,4}\)/y;
const kAddress = /https?:\/\/[^\s<>"`*|\\[\]]{1,2048}/y;
const kAngle = /<((?:https?:\/\/|mailto:)[^\s<>]*)>/y;
const kBreak = /<br ?\/?>/y;
const isSpace = (c) => /\s/.test(c);
const isSign = (c) => /[\p{P}\p{S}]/u.test(c);
const isWord = (c) => /[\p{L}\p{N}]/u.test(c);
const isUnspaced = (c) => /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/u.test(c); // of a script without spaces beside signs

function addressOf(text) {
  try {
    const url = new URL(text);
    return kSchemes.includes(url.protocol) ? url.href : "";
  } catch {
    return "";
  }
}

const at = (pattern, text, index) => ((pattern.lastIndex = index), pattern.exec(text));

// Of each `[` the `]` that ends it; of each run of backticks the next one of its length; of each `\(`, `\[` and `$$` the sign that ends its formula.
function matches(text) {
  const ends = new Map(), stack = [], last = new Map();
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === "\\") ++i;
    else if (text[i] === "[") stack.push(i);
    else if (text[i] === "]" && stack.length > 0) ends.set(stack.pop(), i);
  }
  const runs = [...text.matchAll(/`+/g)];
  for (const run of runs.reverse()) {
    const size = run[0].length;
    if (last.has(size)) ends.set(run.index, last.get(size));
    last.set(size, run.index);
  }
  for (const { 0: sign, index } of [...text.matchAll(/\\[^]|\$\$/g)].reverse()) {
    const end = last.get(kFormulas[sign]);
    if (end !== undefined) ends.set(index, end);
    last.set(sign, index);
  }
  return ends;
}

// CommonMark's rule of three: `*a**b*` is one emphasis.
const fits = (opener, size, both) =>
  !(opener.both || both) || (opener.size + size) % 3 !== 0 || (opener.size % 3 === 0 && size % 3 === 0);

class Line {
  constructor(text, open, deep, inLink) {
    Object.assign(this, { text, open, deep, inLink, nodes: [], openers: [], plain: "", i: 0, ends: matches(text) });
  }

  flush() {
    if (this.plain !== "") this.nodes.push(document.createTextNode(this.plain));
    this.plain = "";
  }
  put(node) {
    this.flush();
    this.nodes.push(node);
  }

  // All of it, as nodes.
  make() {
    const { text } = this;
    while (this.i < text.length) {
      const next = at(kSpecial, text, this.i);
      const end = next ? next.index : text.length;
      this.plain += text.slice(this.i, end);
      this.i = end;
      if (next) this.special(next[0]);
    }
    this.flush();
    if (this.open) this.closeAll();
    return this.joined();
  }

  // Signs that meant nothing are one text with what is beside them.
  joined() {
    const out = [];
    let text = "";
    const end = () => {
      if (text !== "") out.push(document.createTextNode(text));
      text = "";
    };
    for (const node of this.nodes) {
      if (node.nodeType === Node.TEXT_NODE) text += node.data;
      else end(), out.push(node);
    }
    end();
    return out;
  }

  special(c) {
    const { text, i } = this;
    if (text.slice(i, i + 2) in kFormulas && (this.open || this.ends.has(i))) return this.formula();
    if (c === "\\" && i + 1 < text.length && isSign(text[i + 1])) return (this.plain += text[i + 1]), void (this.i += 2);
    if (c === "\n") return this.put(make("br")), void ++this.i;
    if (c === "`") return this.code();
    if (c === "*" || c === "_" || c === "~") return this.emphasis(c);
    if (c === "<") {
      const angle = at(kAngle, text, i), br = at(kBreak, text, i);
      if (br) return this.put(make("br")), void (this.i += br[0].length);
      if (angle && this.link(angle[1], [document.createTextNode(angle[1])])) return void (this.i += angle[0].length);
    }
    if (c === "h" && !this.inLink && (i === 0 || !isWord(text[i - 1]))) {
      const found = at(kAddress, text, i);
      const address = found ? found[0].replace(/[.,:;!?'"]{1,8}$/, "").replace(/^([^(]*)\)$/, "$1") : "";
      if (address) {
        if (!this.link(address, [document.createTextNode(address)])) this.plain += address;
        return void (this.i += address.length);
      }
    }
    if (c === "[" || (c === "!" && text[i + 1] === "[")) if (this.brackets(c === "!" ? i + 1 : i)) return;
    this.plain += c;
    ++this.i;
  }

  formula() {
    const end = this.ends.has(this.i) ? this.ends.get(this.i) + 2 : this.text.length;
    const lines = this.text.slice(this.i, end).split("\n");
    lines.forEach((line, n) => {
      if (n > 0) this.put(make("br"));
      this.plain += line;
    });
    this.i = end;
  }

  code() {
    const size = at(/`+/y, this.text, this.i)[0].length;
    const begin = this.i + size, end = this.ends.get(this.i) ?? (this.open ? this.text.length : -1);
    if (end < 0) return (this.plain += this.text.slice(this.i, begin)), void (this.i = begin);
    const inner = this.text.slice(begin, end).replaceAll("\n", " ");
    const spaced = inner.length > 2 && inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "";
    if (inner !== "") this.put(make("code", {}, spaced ? inner.slice(1, -1) : inner));
    this.i = Math.min(end + size, this.text.length);
  }

  // False: the scheme is none that is followed. The text stays as it is then.
  link(to, nodes) {
    const address = this.inLink ? "" : addressOf(to);
    if (address === "") return false;
    const a = make("a", { href: address, title: address, target: "_blank", rel: "noopener noreferrer nofollow" });
    a.append(...nodes);
    this.put(a);
    return true;
  }

  // [words](address), also where an image is meant: nothing is loaded.
  brackets(begin) {
    const end = this.ends.get(begin);
    if (this.deep >= kDeep) return false;
    if (end === undefined || this.text[end + 1] !== "(") return false;
    const target = at(kLink, this.text, end + 1);
    const words = (inLink) => new Line(this.text.slice(begin + 1, end), false, this.deep + 1, inLink).make();
    if (target) {
      const address = target[1] ?? target[2];
      if (addressOf(address) === "" || this.inLink) return false;
      this.link(address, begin + 1 === end ? [document.createTextNode(address)] : words(true));
      this.i = target.index + target[0].length;
      return true;
    }
    if (!this.open || this.text.length - end > 2048 || /[\s)]/.test(this.text.slice(end))) return false;
    this.put(make("span")); // its address still comes
    this.nodes.at(-1).append(...words(true));
    this.i = this.text.length;
    return true;
  }

  emphasis(c) {
    const { text, i } = this;
    let n = at(c === "*" ? /\*+/y : c === "_" ? /_+/y : /~+/y, text, i)[0].length;
    this.i += n;
    const size = n;
    const before = text[i - 1] ?? " ", after = text[this.i] ?? " ";
    const parts = (other) => isSpace(other) || isSign(other) || (c === "*" && isUnspaced(other));
    const left = !isSpace(after) && (!isSign(after) || parts(before));
    const right = !isSpace(before) && (!isSign(before) || parts(after));
    const opens = c === "_" ? left && (!right || isSign(before)) : left;
    const closes = c === "_" ? right && (!left || isSign(after)) : right;
    if (c === "~" && n !== 2) return void (this.plain += text.slice(i, this.i));
    this.flush();
    while (closes && n > 0) {
      let o = this.openers.length - 1;
      while (o >= 0 && !(this.openers[o].c === c && fits(this.openers[o], size, opens))) --o;
      if (o < 0) break;
      this.openers.length = o + 1;
      n -= this.wrap(this.openers[o], n);
      if (this.openers[o].n === 0) this.openers.pop();
    }
    if (n === 0) return;
    if (this.open && this.i === text.length && !closes) return; // what it begins still comes
    const node = document.createTextNode(c.repeat(n));
    this.nodes.push(node);
    if (opens && this.openers.length < kOpeners) this.openers.push({ c, n, node, at: this.nodes.length - 1, size, both: closes });
  }

  // What comes after an opener becomes its element. The signs that this takes.
  wrap(opener, n) {
    const take = Math.min(opener.n, n, 2);
    const element = make(opener.c === "~" ? "del" : take === 2 ? "strong" : "em");
    for (const node of this.nodes.splice(opener.at + 1)) element.append(node);
    opener.n -= take;
    opener.node.data = opener.c.repeat(opener.n);
    if (opener.n === 0) this.nodes.splice(opener.at);
    this.nodes.push(element);
    return take;
  }

  // The end still comes: until then it looks as if it were here.
  closeAll() {
    for (const opener of this.openers.reverse()) while (opener.n > 0) this.wrap(opener, opener.n);
  }
}

// The nodes of a text. `open`: more of it comes.
export const lineOf = (text, open) => new Line(text, open, 0, false).make();
