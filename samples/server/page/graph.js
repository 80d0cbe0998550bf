// Draws the forest of shared blocks as `kvrt store graph` does: a session has a row, tokens run to the right, a shared run of blocks is drawn
// once, and a way leads down to where a fork begins. Beside it a list with the same in words.
import { $, button, counted, make, printable, update } from "./dom.js";
import { blocksOf, common, ordered, runsOf, sharedOf } from "./forest.js";

const kBar = 18, kGapFrom = 5; // blocks of this width and more are drawn apart
const kWords = {
  memory: "in memory", disk: "on disk", computing: "being computed", gone: "without KV",
};
let shown = null; // the server's data
let svg = null;
const drawn = new Map(); // by name: {element, looks} of its row in the picture
const listed = new Map(); // by name: {element, looks} of its row in the list
let words = new Map(); // by name: {title, last: the last question, group: its conversation}
let labels = new Map(); // by name: what a session is called
let current = ""; // the name of the one that the chat shows
let opens = () => {};

// What is said in sessions, which one the chat shows, and what opens one.
export function setWords(names, now, open) {
  words = names;
  current = now;
  opens = open;
  if (shown) draw(shown);
}

// By its words: of a conversation's branches the first one by its title, the others by their last question. Where nothing is said, the beginning of
// its name.
function label(sessions) {
  const known = new Set();
  labels = new Map();
  for (const { name } of sessions) {
    const said = words.get(name);
    const text = !said ? (/^(chat|text|resp)-/.test(name) ? name.slice(0, 10) : name) : known.has(said.group) ? `↳ ${said.last || said.title}` : said.title;
    known.add(said?.group);
    labels.set(name, text);
  }
}

// The picture's measures at a width of the page.
function measures(width, longest) {
  const narrow = width < 560;
  const left = narrow ? 12 : 176;
  const right = narrow ? 12 : 96;
  return {
    narrow, left, width, row: narrow ? 46 : 30, top: narrow ? 30 : 12, names: narrow ? 40 : 20,
    scale: Math.max(width - left - right, 60) / Math.max(longest, 1),
  };
}

function shortened(name, most) {
  const text = [...printable(name)];
  return text.length > most ? `${text.slice(0, most).join("")}…` : text.join("");
}

function drawRun(group, session, run, m, y, blockTokens) {
  const x = (token) => m.left + m.scale * token;
  const end = (i) => Math.min((i + 1) * blockTokens, session.tokens);
  const part = make("g");
  part.append(make("title", {}, `tokens ${run.first * blockTokens} to ${end(run.end - 1)}: ${counted(run.end - run.first, "block")} in ` +
                                `${counted(run.users, "session")}, ${kWords[run.state]}`));
  const look = run.state === "gone" ? "gone" : `${run.users > 1 ? "all" : "own"} ${run.state}`;
  const apart = m.scale * blockTokens >= kGapFrom;
  for (let i = run.first; i < run.end;) {
    const next = apart ? i + 1 : run.end;
    const left = x(i * blockTokens), right = x(end(next - 1));
    part.append(make("rect", { x: left.toFixed(1), y, width: Math.max(right - left - 1.5, 0.5).toFixed(1), height: kBar, rx: 3, class: look }));
    i = next;
  }
  const from = x(run.first * blockTokens);
  if (run.users > 1 && x(end(run.end - 1)) - from >= 34)
    part.append(make("text", { x: (from + 6).toFixed(1), y: y + 13, class: `c ${run.state}` }, `×${run.users}`));
  group.append(part);
}

// A session's row: the blocks from `first` on, and the way to them: from the row that has the ones before, or from the fork's last way.
function drawRow(session, first, row, from, runs, m, blockTokens) {
  const group = make("g");
  const y = m.top + m.row * row, middle = y + kBar / 2;
  const name = make("g");
  name.append(make("title", {}, `${printable(labels.get(session.name))}\n${printable(session.name)}`));
  name.append(make("text", { x: 12, y: m.narrow ? y - 9 : middle + 4, class: "n" }, shortened(labels.get(session.name), m.names)));
  if (session.name === current) group.append(make("rect", { x: 2, y: m.narrow ? y - 21 : y, width: 4, height: m.narrow ? kBar + 21 : kBar, rx: 2, class: "now" }));
  if (from) {
    const x = m.left + m.scale * first * blockTokens - 2;
    const top = m.top + m.row * from.row + (from.fork ? kBar / 2 : kBar);
    group.append(make("path", { d: `M${x.toFixed(1)} ${top}V${middle}h5`, class: "way" }));
  }
  for (const run of runs) drawRun(group, session, run, m, y, blockTokens);
  if (!m.narrow) {
    const end = m.left + m.scale * session.tokens;
    group.append(make("text", { x: (end + 10).toFixed(1), y: middle + 4, class: "d" }, counted(session.tokens, "token")));
  }
  group.append(name); // above the way
  if (words.has(session.name)) {
    group.setAttribute("class", "opens"); // the list has the same as a button
    group.addEventListener("click", () => opens(session.name));
  }
  return group;
}

function drawPicture(sessions, blocks, blockTokens, sum) {
  const width = Math.max($("picture").clientWidth, 200);
  const m = measures(width, Math.max(...sessions.map((s) => s.tokens), 1));
  if (!svg) {
    svg = make("svg", { role: "img", "aria-label": "Shared blocks", "aria-describedby": "sum list-title" });
    $("picture").replaceChildren(svg);
  }
  const height = m.top + m.row * (sessions.length - 1) + kBar + 12;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.setAttribute("aria-label", `Picture of the shared blocks. ${sum} The list below has the same in words.`);
  const homes = []; // the row that has each block of the row's chain
  const ways = new Map(); // by the blocks before it: the last row that a way leads to
  const rows = sessions.map((session, row) => {
    const shared = row === 0 ? 0 : common(sessions[row - 1], session);
    homes.length = shared;
    const home = shared > 0 ? homes[shared - 1] : row;
    const way = ways.get(shared) ?? 0;
    const from = home === row ? null : way > home ? { row: way, fork: true } : { row: home, fork: false };
    ways.set(shared, row);
    while (homes.length < session.blocks.length) homes.push(row);
    const runs = runsOf(session, shared, blocks);
    const looks = JSON.stringify([row, from, shared, session.tokens, runs, m.left, m.scale, labels.get(session.name), session.name === current]);
    return [session.name, looks, () => drawRow(session, shared, row, from, runs, m, blockTokens)];
  });
  update(svg, drawn, rows);
}

function drawList(sessions, blocks, blockTokens) {
  const rows = sessions.map((s) => {
    const [least, most] = sharedOf(s, blocks, blockTokens);
    const shared = !least ? "nothing" : `${counted(least.tokens, "token")} with ${counted(least.others, "other")}` +
      (most.others === least.others ? "" : `, the first ${most.tokens.toLocaleString("en")} with ${most.others.toLocaleString("en")}`);
    const state = { memory: "in memory", disk: "on disk", computing: "computing" }[s.state] ?? printable(s.state);
    const cells = [shared, state, ...[s.tokens, s.computed, s.on_disk].map((n) => n.toLocaleString("en"))];
    const label = printable(labels.get(s.name));
    return [s.name, JSON.stringify([label, s.name === current, ...cells]), () => {
      const line = make("tr");
      const head = make("th", { scope: "row", title: printable(s.name) });
      head.append(words.has(s.name) ? button(label, () => opens(s.name), { class: "name" }) : make("span", { class: "name" }, label));
      if (s.name === current) line.setAttribute("aria-current", "true");
      line.append(head);
      for (const cell of cells) line.append(make("td", {}, cell));
      return line;
    }];
  });
  update($("rows"), listed, rows);
}

function sumOf(data, blocks) {
  const named = data.sessions.reduce((n, s) => n + s.blocks.length, 0);
  const shared = [...blocks.values()].filter((b) => b.users > 1).length;
  const parts = [`${counted(data.sessions.length, "session")}, ${counted(named, "block")} of ${data.block_tokens} tokens; ` +
                 `${blocks.size.toLocaleString("en")} kept, each once, ${shared.toLocaleString("en")} of them shared.`];
  if (data.more > 0) parts.push(`${counted(data.more, "older session")} not shown.`);
  if (data.unread > 0) parts.push(`${counted(data.unread, "session")} still being read.`);
  if (data.pool) {
    const { units: all, free, cached } = data.pool;
    parts.push(`Memory for ${counted(all, "unit")}: ${(all - free).toLocaleString("en")} in use, ` +
               `${cached.toLocaleString("en")} of them for prompts that may come again.`);
  }
  return parts.join(" ");
}

export function draw(data) {
  shown = data;
  const sessions = ordered(data.sessions);
  const blocks = blocksOf(sessions, data.block_tokens);
  const sum = sessions.length === 0 ? "Nothing is remembered yet: ask something." : sumOf(data, blocks);
  $("sum").textContent = sum;
  $("picture").hidden = $("list").hidden = $("list-title").hidden = $("legend").hidden = sessions.length === 0;
  label(sessions);
  drawPicture(sessions, blocks, data.block_tokens, sum);
  drawList(sessions, blocks, data.block_tokens);
}

export function forget() {
  shown = null;
  svg = null;
  drawn.clear();
  listed.clear();
  $("picture").replaceChildren();
  $("rows").replaceChildren();
  $("sum").textContent = "Asking the server…";
  $("picture").hidden = $("list").hidden = $("list-title").hidden = $("legend").hidden = true;
}

forget();
let width = 0;
new ResizeObserver(() => {
  const now = $("picture").clientWidth;
  if (shown && now !== width && now > 0) draw(shown);
  width = now;
}).observe($("picture"));
