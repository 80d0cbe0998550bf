// The list of conversations: open again, delete, search. A conversation is one row, whatever branches it has.
import { $, button, make, printable, show, update } from "./dom.js";
import { events } from "./api.js";
import { groupIn, groupOf, markOf } from "./branches.js";
import * as chat from "./chat.js";
import { isNamed, isRead, list, readList, removeSession, titleOf } from "./sessions.js";

const rows = new Map(); // by group: {element, looks}
let groups = []; // {id, title, words, entries, when}, the newest first

function ago(ms) {
  const minutes = Math.floor((Date.now() - ms) / 60000);
  if (ms === 0 || minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h`;
  return `${Math.floor(minutes / 1440)} d`;
}

// Saved responses are copies of conversations; completions have no messages.
function group() {
  const by = new Map();
  for (const entry of list()) {
    if (entry.messages === 0 || entry.name.startsWith("resp-")) continue;
    const id = groupOf(entry);
    if (!by.has(id)) by.set(id, { id, entries: [], when: 0 });
    const one = by.get(id);
    one.entries.push(entry);
    one.when = Math.max(one.when, entry.saved_unix_ms);
    one.order = by.size;
  }
  groups = [...by.values()];
  for (const one of groups) {
    const newest = one.entries.at(-1);
    one.title = printable(titleOf(one.entries.find(isNamed) ?? newest));
    one.words = one.entries.map((e) => `${titleOf(e)}\n${e.title}\n${e.last}`).join("\n").toLowerCase();
    one.at = list().indexOf(newest);
  }
  groups.sort((a, b) => b.at - a.at);
}

const isShown = (one) => one.entries.some((e) => markOf(e) === chat.shown()) ||
                         one.id === groupIn(chat.shown());

function rowOf(one) {
  const row = make("li");
  const open = button("", () => {
    if (isShown(one)) chat.look();
    else chat.open(one.entries.at(-1));
  }, { class: "open", tabindex: -1 });
  const note = [ago(one.when)];
  const { last } = one.entries.at(-1);
  if (one.entries.length > 1) note.push(`${one.entries.length} branches`);
  if (printable(last) !== one.title) note.push(printable(last));
  open.append(make("span", { class: "title", dir: "auto" }, one.title), make("span", { class: "note" }, note.join(" · ")));
  if (isShown(one)) open.setAttribute("aria-current", "true");
  const gone = button("×", (event) => event.detail < 2 && remove(one, gone), { class: "quiet delete", tabindex: -1, "aria-label": `Delete: ${one.title}` });
  gone.addEventListener("blur", () => ask(gone, false, one));
  row.append(open, gone);
  return row;
}

function ask(gone, sure, one) {
  gone.textContent = sure ? "Delete?" : "×";
  gone.setAttribute("aria-label", sure ? `Delete for good: ${one.title}` : `Delete: ${one.title}`);
  gone.classList.toggle("sure", sure);
}

async function remove(one, gone) {
  if (!gone.classList.contains("sure")) return ask(gone, true, one);
  const next = gone.parentElement.nextElementSibling ?? gone.parentElement.previousElementSibling;
  const was = isShown(one);
  try {
    for (const entry of one.entries) await removeSession(entry.name).catch((error) => {
      if (error.status !== 404) throw error;
    });
    show($("found-failure"), "");
    if (was) chat.begin();
    await readList();
  } catch (error) {
    if (error.name !== "AbortError") show($("found-failure"), error.message);
    return;
  }
  if (!was) (next?.isConnected ? next.querySelector("button") : $("new")).focus();
}

export function draw() {
  const wanted = $("search").value.trim().toLowerCase();
  const found = wanted === "" ? groups : groups.filter((one) => one.words.includes(wanted));
  const focused = document.activeElement?.closest("#found li");
  const at = focused ? [...$("found").children].indexOf(focused) : -1;
  update($("found"), rows, found.map((one) => [one.id, JSON.stringify([one.title, ago(one.when), one.entries.map((e) => e.name), isShown(one)]), () => rowOf(one)]));
  if (at >= 0 && !document.activeElement?.closest("#found")) $("found").children[Math.min(at, found.length - 1)]?.querySelector("button").focus();
  const reach = $("found").querySelector("[aria-current]") ?? $("found").querySelector(".open");
  for (const b of $("found").querySelectorAll("button[tabindex='0']")) b.tabIndex = -1;
  if (reach) reachable(reach.parentElement);
  show($("found-note"), groups.length === 0 ? isRead() ? "No conversations yet." : "" : found.length === 0 ? "No conversation has these words." : "");
}

// One row is in the order of Tab; the arrows lead to the others.
function reachable(row) {
  for (const b of row.querySelectorAll("button")) b.tabIndex = 0;
}

function move(event) {
  const row = event.target.closest("li");
  const to = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling, Home: $("found").firstElementChild, End: $("found").lastElementChild }[event.key];
  if (!row || to === undefined) return;
  event.preventDefault();
  if (!to) return;
  for (const b of row.querySelectorAll("button")) b.tabIndex = -1;
  reachable(to);
  to.querySelector(".open").focus();
}

export function start() {
  $("search").addEventListener("input", draw);
  $("found").addEventListener("keydown", move);
  events.addEventListener("list", () => {
    group();
    draw();
    performance.mark("list");
  });
  events.addEventListener("talk", draw);
}
