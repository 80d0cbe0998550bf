// The chat. What is shown is in sessionStorage, so a reload keeps it; the server has its words and its KV.
import { $, show } from "./dom.js";
import { ApiError, ask, eraSignal, events, store, stored, streamed } from "./api.js";
import { common, groupOf, markOf, messageOf, newBranch, newMark, requestOf, variantsOf } from "./branches.js";
import { keepEnd, start as startEnd, toEnd } from "./end.js";
import { list, readBranch, readList } from "./sessions.js";
import * as settings from "./settings.js";
import { draw, edit, isEmpty, view } from "./talk.js";

const kConversation = "kvrt.conversation";
const kBranchesMax = 24; // that are read of a conversation
const kSpeedMs = 200; // of an answer that a speed is told of
const kSaidMax = 4000; // characters that a screen reader is told at once
let mark = newMark(); // of the branch that is shown; "=NAME": a session that another client began
let messages = []; // {role, content, reasoning, calls, sampling, state: asking | done | stopped | cut, finish, usage, error}
let branches = new Map(); // messages by mark, the oldest first
let branchesOf = ""; // the group that they were read for
let answering = null; // the AbortController of the answer that comes
let variants = new Map(); // by message, of what is shown
let opening = 0; // counts what was to be opened: the last one is
let saveTimer = 0;
let frame = 0;
let leaving = false; // the page ends, and the browser its requests

export const isAnswering = () => answering !== null;
export const shown = () => mark;

export function setModel(name, sampling) {
  settings.setModel(name, sampling);
  refresh();
}

// ---- what is kept ----

function save() {
  clearTimeout(saveTimer);
  saveTimer = 0;
  const kept = { mark, messages, settings: settings.kept() };
  if (!store(kConversation, JSON.stringify(kept))) show($("failure"), "The browser has no room to keep this conversation over a reload.");
}
const saveSoon = () => (saveTimer ||= setTimeout(save, 250));

function load() {
  const kept = JSON.parse(stored(kConversation));
  if (!kept) return;
  settings.restore(kept.settings);
  const last = kept.messages.at(-1);
  if (last?.state === "asking") Object.assign(last, { state: "cut", error: "The page was loaded again before the answer was whole. The server has kept what it computed." });
  put(kept.mark, kept.messages);
  if (last?.state === "cut" && isEmpty(last)) takeBack();
}

// Shows these messages.
function put(newMark_, list_) {
  mark = newMark_;
  messages = list_;
  branches.set(mark, messages);
  $("talk").replaceChildren(...messages.map((m) => view(m, acts)));
  refresh();
  toEnd();
  events.dispatchEvent(new Event("talk"));
}

function fresh() {
  ++opening;
  answering?.abort();
  answering = null;
  branches = new Map();
  branchesOf = "";
  show($("failure"), "");
  $("said").textContent = "";
  put(newMark(), []);
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

const lastShown = () => messages.at(-1);

function drawOne(m, i) {
  draw(m, { last: m === lastShown(), busy: isAnswering(), variants: variants.get(i) }, acts);
}

function refresh() {
  variants = variantsOf(mark, branches);
  $("empty").hidden = messages.length > 0;
  $("send").disabled = settings.modelNow() === "" || isAnswering();
  $("stop").disabled = !isAnswering();
  if (!isAnswering() && document.activeElement === $("stop")) $("question").focus();
  $("send").hidden = isAnswering();
  $("stop").hidden = !isAnswering();
  messages.forEach(drawOne);
  const title = messages.find((m) => m.role === "user")?.content.trim().slice(0, 60) ?? "";
  document.title = title === "" ? "kvrt" : `${title} – kvrt`;
}

function drawSoon(m) {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    if (m !== lastShown()) return;
    drawOne(m, messages.length - 1);
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

// The last question comes back to its field, without the answer that it did not get.
function takeBack() {
  const [question, reply] = messages.splice(-2);
  for (const m of [question, reply]) m.view.item.remove();
  const field = $("question");
  field.value = field.value === "" ? question.content : `${question.content}\n${field.value}`;
  refresh();
}

function requestFor(message) {
  const said = messages.slice(0, messages.indexOf(message)).map(requestOf);
  if (settings.systemNow() !== "") said.unshift({ role: "system", content: settings.systemNow() });
  const body = { ...message.sampling, model: settings.modelNow(), messages: said, stream: true, stream_options: { include_usage: true } };
  if (settings.longestNow() > 0) body.max_tokens = settings.longestNow();
  if (!mark.startsWith("=")) body.chat_template_kwargs = { kvrt_conversation: mark };
  return body;
}

// The words of an answer, as they come, after what there is of it. One that is given again by its seed: the words that are there stay until there
// are more.
async function receive(message, body, signal, { content, reasoning } = { content: "", reasoning: "" }) {
  const begun = performance.now();
  const before = content === "" && reasoning === "" ? 0 : (message.made ?? 0);
  const response = await ask("/v1/chat/completions", { body, signal });
  message.calls = [];
  let first = 0, pieces = 0;
  const longer = (now, before) => (now.length < before.length && before.startsWith(now) ? before : now);
  for await (const event of streamed(response)) {
    const choice = event.choices?.[0];
    const { content: more = "", reasoning_content: thought = "", tool_calls: calls = [] } = choice?.delta ?? {};
    content += more ?? "";
    reasoning += thought ?? "";
    for (const call of calls) message.calls.push({ id: call.id, name: String(call.function?.name), arguments: String(call.function?.arguments) });
    if (more || thought || calls.length > 0) {
      const now = performance.now();
      if (pieces++ === 0) message.firstMs = (first = now) - begun;
      else if (now - first > kSpeedMs) message.perSecond = ((pieces - 1) * 1000) / (now - first);
    }
    message.content = longer(content, message.content);
    message.reasoning = longer(reasoning, message.reasoning);
    message.finish = choice?.finish_reason ?? message.finish;
    if (event.usage) {
      message.usage = event.usage;
      message.made = before + event.usage.completion_tokens;
      const made = event.usage.completion_tokens - 1, took = performance.now() - first;
      message.perSecond = made > 0 && took > kSpeedMs ? (made * 1000) / took : 0;
    }
    drawSoon(message);
    saveSoon();
  }
  Object.assign(message, { content, reasoning });
}

async function answer(message, give = (signal) => receive(message, requestFor(message), signal)) {
  const era = eraSignal();
  const mine = new AbortController();
  Object.assign(message, { state: "asking", error: "", usage: null, finish: "", firstMs: undefined, perSecond: 0 });
  $("said").textContent = "The answer comes.";
  turn(mine);
  try {
    await give(mine.signal);
    message.state = "done";
  } catch (error) {
    if (leaving) return; // as one that was being answered it is kept
    message.state = mine.signal.aborted ? "stopped" : "cut";
    if (!mine.signal.aborted) message.error = error instanceof ApiError ? error.message : `This page failed: ${error.message}`;
  }
  if (era.aborted || answering !== mine) return; // all of it is forgotten
  if (message.state !== "done" && isEmpty(message)) {
    takeBack();
    show($("failure"), message.error);
    $("said").textContent = message.error === "" ? "Stopped." : ""; // an alert is heard by itself
  } else {
    $("said").textContent = `${{ done: "Answer", stopped: "Stopped", cut: message.error }[message.state]}: ${message.content.slice(0, kSaidMax)}`;
  }
  turn(null);
}

function askFor(...said) {
  show($("failure"), "");
  for (const content of said) messages.push({ role: "user", content, state: "done" });
  messages.push({ role: "assistant", content: "", reasoning: "", calls: [], sampling: settings.samplingNow(), state: "asking" });
  for (const m of messages.slice(-1 - said.length)) $("talk").append(view(m, acts));
  toEnd();
  answer(lastShown());
}

export function send(text) {
  if (isAnswering() || settings.modelNow() === "" || text.trim() === "" || !settings.areRight()) return false;
  leaveOthers();
  askFor(text);
  return true;
}

// ---- branches ----

// From here on another branch is said; this one stays.
function branch(count, to = mark.startsWith("=") ? newMark() : newBranch(mark)) {
  put(to, messages.slice(0, count).map((m) => ({ ...m })));
}

// Another client has what it began, and may go on with it.
function leaveOthers() {
  if (mark.startsWith("=")) branch(messages.length);
}

const acts = {
  goOn(message) {
    $("question").focus();
    const at = messages.indexOf(message);
    leaveOthers();
    answer(messages[at], (signal) => goOn(messages[at], signal));
  },
  retry(message) {
    if (isAnswering() || !settings.areRight()) return;
    branch(messages.indexOf(message));
    $("question").focus();
    askFor();
  },
  edit(message) {
    edit(message, (text) => {
      if (isAnswering() || !settings.areRight()) return;
      branch(messages.indexOf(message));
      $("question").focus();
      askFor(text);
    });
  },
  fork(message) {
    if (isAnswering()) return;
    const part = messages.slice(0, messages.indexOf(message) + 1).map((m) => ({ ...m }));
    const question = message.role === "user" ? part.pop() : null;
    branches = new Map();
    branchesOf = "";
    put(newMark(), part);
    if (question) $("question").value = question.content;
    $("said").textContent = "A fork: a new conversation, which has all up to here.";
    save();
    $("question").focus();
  },
  show(to) {
    if (isAnswering() || !branches.has(to)) return;
    put(to, branches.get(to));
    save();
    $("scroll").focus();
  },
};

// The answer goes on from what the server has of it, where it has it; else it is given again, by its seed.
async function goOn(message, signal) {
  const at = messages.indexOf(message);
  const find = async () => (await readList(signal)).find((e) => markOf(e) === mark);
  let entry = await find();
  for (let tries = 0; entry?.state === "computing" && tries < 50; ++tries) {
    await new Promise((done) => setTimeout(done, 100)); // of a connection that ended a moment ago
    entry = await find();
  }
  const kept = entry ? await readBranch(entry.name, signal).catch(() => null) : null;
  const last = kept?.messages[at];
  const known = last?.role === "assistant" && !isEmpty(last) && kept.messages.length === at + 1 && common(kept.messages, messages) >= at;
  if (known) {
    Object.assign(message, { content: last.content, reasoning: last.reasoning, calls: last.calls });
    drawSoon(message);
    if (kept.whole) return;
    const body = requestFor(message);
    body.messages.push({ ...requestOf(message), ...(message.reasoning === "" ? {} : { reasoning_content: message.reasoning }) });
    body.continue_final_message = true;
    try {
      return await receive(message, body, signal, last);
    } catch (error) {
      if (error.code !== "answer_not_found") throw error;
    }
  }
  message.sampling ??= settings.samplingNow();
  const body = requestFor(message);
  if (body.max_tokens) body.max_tokens += message.made ?? 0;
  return receive(message, body, signal);
}

// Shows a session of the list, with the other branches of its conversation.
export async function open(entry) {
  const mine = ++opening;
  if (isAnswering()) answering.abort();
  show($("failure"), "");
  const group = groupOf(entry);
  try {
    const one = await readBranch(entry.name);
    if (mine !== opening) return; // another one since, or a new conversation
    fresh();
    settings.showSystem(one.system);
    if (one.messages.at(-1)?.role === "user") one.messages.push(messageOf({ role: "assistant", content: "" }, true));
    put(markOf(entry), one.messages);
    save();
  } catch (error) {
    if (error.name !== "AbortError") show($("failure"), error.message);
    return;
  }
  await readBranches(group);
}

async function readBranches(group) {
  branchesOf = group;
  const own = mark;
  const entries = list().filter((e) => groupOf(e) === group && e.messages > 0).slice(-kBranchesMax);
  const read = await Promise.all(entries.map((e) => (e.conversation === own ? null : readBranch(e.name).catch(() => null))));
  if (mark !== own || branchesOf !== group) return;
  const known = branches;
  branches = new Map();
  entries.forEach((e, i) => {
    if (e.conversation === own) branches.set(own, messages);
    else if (read[i]) branches.set(e.conversation, read[i].messages);
  });
  for (const [name, said] of known) branches.set(name, said); // what is known here is newer
  branches.set(own, messages);
  refresh();
}

export function start() {
  settings.start(save);
  fresh();
  try {
    load();
  } catch {
    fresh(); // what an older page kept, or nothing to read
  }
  refresh();
  const ask_ = () => {
    const field = $("question");
    const text = field.value;
    if (send(text)) field.value = "";
  };
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    ask_();
  });
  $("question").addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isAnswering()) answering.abort();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    ask_();
  });
  for (const b of $("starts").querySelectorAll("button")) {
    b.addEventListener("click", () => {
      $("question").focus();
      send(b.textContent);
    });
  }
  $("stop").addEventListener("click", () => answering?.abort());
  startEnd();
  events.addEventListener("list", () => {
    const group = mark.split(".")[0];
    if (messages.length > 0 && branchesOf !== group && !isAnswering() && list().some((e) => groupOf(e) === group)) readBranches(group);
  });
  addEventListener("beforeunload", () => (leaving = true));
  addEventListener("pageshow", () => (leaving = false)); // back again, as it was
  addEventListener("pagehide", save);
}
