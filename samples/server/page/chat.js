// The chat: the branch of a conversation that is shown, and what is done with it. It is in sessionStorage, so a reload keeps it; the server has its
// words and its KV.
import { $, isComposing, sends, show, touch } from "./dom.js";
import { ApiError, eraSignal, events, store, stored } from "./api.js";
import { give, goOn } from "./answer.js";
import { add, common, groupIn, groupOf, isEmpty, markOf, newBranch, newMark, variantsOf } from "./branches.js";
import { keepAt, keepEnd, start as startEnd, toEnd } from "./end.js";
import { list, readBranch } from "./sessions.js";
import * as settings from "./settings.js";
import { draw, edit, view } from "./talk.js";

const kConversation = "kvrt.conversation";
const kBranchesMax = 24; // that are read of a conversation
const kSaidMax = 4000; // characters that a screen reader is told at once
let branch = { mark: newMark(), system: "", messages: [] }; // that is shown
let branches = new Map(); // of its conversation, by mark, the oldest first
let branchesOf = ""; // the group that they were read for
let variants = new Map(); // by message, of what is shown
let answering = null; // the AbortController of the answer that comes
let opening = null; // the AbortController of what is being opened
let reopens = ""; // the mark of what there was no room to keep
let saveTimer = 0;
let frame = 0;
let leaving = false; // the page ends, and the browser its requests

export const isAnswering = () => answering !== null;
export const shown = () => (branch.messages.length > 0 ? branch.mark : "");

export function setModel(name, sampling) {
  settings.setModel(name, sampling);
  refresh();
}

// ---- what is kept ----

function save() {
  clearTimeout(saveTimer);
  saveTimer = 0;
  const kept = { branch, settings: settings.kept() };
  if (store(kConversation, JSON.stringify(kept))) return;
  store(kConversation, JSON.stringify({ ...kept, branch: { ...branch, messages: [] }, isShort: true }));
  show($("failure"), "The browser has no room for this conversation: after a reload it is what the server has of it.");
}
const saveSoon = () => (saveTimer ||= setTimeout(save, 250));

function load() {
  const kept = JSON.parse(stored(kConversation));
  if (!kept) return;
  settings.restore(kept.settings);
  const [question, last] = kept.branch.messages.slice(-2);
  const isAsked = last?.state === "asking";
  if (isAsked) Object.assign(last, { state: "cut", error: "The page was loaded again before the answer was whole. The server has kept what it computed." });
  put(kept.branch);
  if (isAsked && isEmpty(last) && question.role === "user") takeBack({ to: { ...branch, messages: branch.messages.slice(0, -2) }, text: question.content }, true);
  if (kept.isShort) reopens = branch.mark;
}

// Shows a branch. What it has in common with the one before keeps its elements.
function put(to) {
  stay();
  branch = to;
  add(branches, branch);
  $("talk").replaceChildren(...branch.messages.map((m) => m.view?.item ?? view(m, acts)));
  refresh();
  toEnd();
  events.dispatchEvent(new Event("talk"));
}

// Nothing else is opened: somebody goes on here.
function stay() {
  opening?.abort();
  opening = null;
  $("opening").hidden = true;
}

// The chat comes in sight, as it is.
export function look() {
  stay();
  events.dispatchEvent(new Event("chat"));
}

function fresh(to = { mark: newMark(), system: "", messages: [] }) {
  answering?.abort();
  answering = null;
  branches = new Map();
  branchesOf = "";
  show($("failure"), "");
  $("said").textContent = "";
  put(to);
}

export function begin() {
  fresh();
  settings.showSystem();
  save();
  $("question").focus();
}

export function forget() {
  fresh();
  settings.restore();
  $("question").value = "";
  clearTimeout(saveTimer);
  saveTimer = 0;
  store(kConversation, null);
}

// ---- how it looks ----

const lastShown = () => branch.messages.at(-1);

function drawOne(m, i) {
  const last = m === lastShown();
  draw(m, { last, goesOn: last && !isAnswering() && !branch.mark.startsWith("="), busy: isAnswering(), variants: variants.get(i) }, acts);
}

function refresh() {
  const focused = document.activeElement, busy = isAnswering();
  variants = variantsOf(branch, branches);
  $("empty").hidden = branch.messages.length > 0;
  $("send").disabled = settings.modelNow() === "" || busy;
  for (const b of $("starts").querySelectorAll("button")) b.disabled = $("send").disabled;
  $("stop").disabled = !busy;
  $("send").hidden = busy;
  $("stop").hidden = !busy;
  if (busy && focused === $("send")) $("stop").focus();
  if (!busy && focused === $("stop")) $(touch.matches ? "send" : "question").focus();
  branch.messages.forEach(drawOne);
  const title = branch.messages.find((m) => m.role === "user")?.content.trim().slice(0, 60) ?? "";
  document.title = title === "" ? "kvrt" : `${title} – kvrt`;
}

function drawSoon(m) {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    if (m !== lastShown()) return;
    drawOne(m, branch.messages.length - 1);
    keepEnd();
  });
}

// An answer begins or ends.
function turn(controller) {
  answering = controller;
  refresh();
  keepEnd();
  save();
  events.dispatchEvent(new Event("answer"));
}

// ---- questions and answers ----

// The focus goes to the question's field, unless a keyboard comes with it.
function toQuestion() {
  if (!touch.matches) $("question").focus();
}

// A text comes to the question's field, before what is there.
function takeUp(text) {
  const field = $("question");
  field.value = [text, field.value].filter((part) => part !== "").join("\n");
}

const canAsk = () => !isAnswering() && settings.modelNow() !== "" && settings.areRight();

// Nothing came of a question: what was shown before it is shown again, and its text is in the field. `isSaid`: the server may have it, so what is
// said in its place makes a branch.
function takeBack({ to, text }, isSaid) {
  if (!isSaid) branches.delete(branch.mark);
  put(isSaid && to.mark === branch.mark ? { ...to, mark: newBranch(to.mark) } : to);
  takeUp(text);
}

async function answer(message, back, giveIt = give) {
  const era = eraSignal();
  const mine = new AbortController();
  Object.assign(message, { state: "asking", error: "", usage: null, finish: "", firstMs: undefined, perSecond: 0 });
  look();
  $("said").textContent = "The answer comes.";
  turn(mine);
  const grown = () => {
    drawSoon(message);
    saveSoon();
  };
  try {
    await giveIt(branch, message, mine.signal, grown);
    message.state = "done";
  } catch (error) {
    if (leaving) return; // as one that was being answered it is kept
    message.state = mine.signal.aborted ? "stopped" : "cut";
    if (!mine.signal.aborted) message.error = error instanceof ApiError ? error.message : `This page failed: ${error.message}`;
  }
  if (era.aborted || answering !== mine) return; // all of it is forgotten
  if (message.state !== "done" && isEmpty(message) && back) {
    takeBack(back, message.state === "stopped");
    show($("failure"), message.error);
    $("said").textContent = message.error === "" ? "Stopped." : ""; // an alert is heard by itself
  } else {
    $("said").textContent = `${{ done: "Answer", stopped: "Stopped", cut: message.error }[message.state]}: ${message.content.slice(0, kSaidMax)}`;
  }
  turn(null);
}

// Asks questions, or anew what was asked last. `back`: what is shown again if nothing comes of it.
function askFor(said, back) {
  show($("failure"), "");
  branch.system = settings.systemNow();
  const more = said.map((content) => ({ role: "user", content, state: "done" }));
  more.push({ role: "assistant", content: "", reasoning: "", calls: [], sampling: settings.samplingNow(), state: "asking" });
  branch.messages.push(...more);
  $("talk").append(...more.map((m) => view(m, acts)));
  toEnd();
  answer(lastShown(), back);
}

function send(text) {
  if (text.trim() === "" || !canAsk()) return false;
  const back = { to: { ...branch, messages: [...branch.messages] }, text };
  if (isElsewhere()) leave(branch.messages.length);
  askFor([text], back);
  return true;
}

// ---- branches ----

// Another tab went on with what is shown.
function isLonger() {
  const count = branch.messages.length + (branch.system === "" ? 0 : 1);
  return list().some((e) => markOf(e) === branch.mark && e.messages > count);
}

// The next question goes with other words than the server has by this mark.
function isElsewhere() {
  const { mark, system, messages } = branch;
  return mark.startsWith("=") || (messages.length > 0 && system !== settings.systemNow()) || isLonger();
}

// From here on another branch is said; this one stays.
function leave(count) {
  const { mark, messages } = branch;
  const begins = mark.startsWith("=") || messages.length === 0; // a conversation, of which the server has no branch yet
  const to = begins ? newMark() : newBranch(mark);
  if (begins) branchesOf = groupIn(to);
  put({ ...branch, mark: to, messages: messages.slice(0, count) });
}

// Asks in the place of a message. False: not now.
function askInstead(message, ...said) {
  if (!canAsk()) return false;
  const back = { to: branch, text: said.join("") };
  leave(branch.messages.indexOf(message));
  toQuestion();
  askFor(said, back);
  return true;
}

const acts = {
  goOn(message) {
    if (!canAsk()) return;
    if (isLonger()) leave(branch.messages.length);
    toQuestion();
    answer(message, null, goOn);
  },
  retry: (message) => askInstead(message),
  edit(message) {
    stay();
    edit(message, (text) => askInstead(message, text));
  },
  fork(message) {
    if (isAnswering()) return;
    const isQuestion = message.role === "user";
    const messages = branch.messages.slice(0, branch.messages.indexOf(message) + (isQuestion ? 0 : 1));
    fresh({ ...branch, mark: newMark(), messages });
    if (isQuestion) takeUp(message.content);
    $("said").textContent = "A fork: a new conversation, which has all up to here.";
    save();
    $("question").focus();
  },
  show(to) {
    if (isAnswering() || !branches.has(to)) return;
    const next = branches.get(to), n = common(branch.messages, next.messages);
    const y = branch.messages[n].view.item.getBoundingClientRect().top;
    put(next);
    settings.showSystem(next.system);
    keepAt(next.messages[n].view.item, y);
    save();
    $("scroll").focus();
  },
};

// Shows a session of the list, with the other branches of its conversation.
export async function open(entry) {
  look();
  if (markOf(entry) === shown()) return;
  show($("failure"), "");
  const mine = (opening = new AbortController());
  $("opening").hidden = false;
  try {
    const one = await readBranch(entry.name, mine.signal);
    fresh(one);
    settings.showSystem(one.system);
    save();
    await readBranches(groupOf(entry));
  } catch (error) {
    if (error.name === "AbortError") return; // another one since, or somebody goes on with what is shown
    stay();
    show($("failure"), error.message);
  }
}

async function readBranches(group) {
  branchesOf = group;
  const entries = list().filter((e) => groupOf(e) === group && e.messages > 0).slice(-kBranchesMax);
  const read = await Promise.all(entries.map((e) => readBranch(e.name).catch(() => null)));
  if (branchesOf !== group) return;
  const known = [...branches.values(), branch];
  const first = known.filter((one) => one.mark.startsWith("=")); // another client began it
  branches = new Map();
  for (const one of [...first, ...read, ...known]) if (one) add(branches, one); // what is known here is newer
  refresh();
}

export function start() {
  settings.start(save);
  fresh();
  try {
    load();
  } catch {
    fresh(); // what an older page kept
  }
  refresh();
  const ask = () => {
    const field = $("question");
    if (send(field.value)) field.value = "";
  };
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  $("question").addEventListener("keydown", (event) => {
    if (!sends(event)) return;
    event.preventDefault();
    ask();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !isComposing(event) && !event.target.closest(".edit") && !document.querySelector("dialog[open]")) answering?.abort();
  });
  if (touch.matches) $("question-note").textContent = "Enter begins a new line.";
  for (const b of $("starts").querySelectorAll("button")) {
    b.addEventListener("click", () => {
      toQuestion();
      send(b.textContent);
    });
  }
  $("stop").addEventListener("click", () => answering?.abort());
  startEnd();
  events.addEventListener("list", () => {
    const kept = reopens === branch.mark && list().findLast((e) => markOf(e) === reopens);
    if (kept && shown() === "") return void open(kept);
    const group = groupIn(branch.mark);
    if (shown() !== "" && branchesOf !== group && !isAnswering() && list().some((e) => groupOf(e) === group)) readBranches(group);
  });
  addEventListener("beforeunload", () => (leaving = true));
  addEventListener("pageshow", () => (leaving = false)); // back again, as it was
  addEventListener("pagehide", save);
}
