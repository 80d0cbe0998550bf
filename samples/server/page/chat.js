// The chat. The conversation is in sessionStorage, so a reload keeps it; the server has its KV.
import { $, make, printable, show } from "./dom.js";
import { ApiError, ask, eraSignal, events, store, stored, streamed } from "./api.js";

const kConversation = "kvrt.conversation";
let model = "";
let messages = []; // {role, content, reasoning, calls, seed, state: asking | done | stopped | cut, usage, error}
let answering = null; // the AbortController of the answer that comes
let saveTimer = 0;
let leaving = false; // the page ends, and the browser its requests

export const isAnswering = () => answering !== null;

export function setModel(name) {
  model = name;
  $("send").disabled = model === "" || isAnswering();
}

// ---- what is kept ----

function save() {
  clearTimeout(saveTimer);
  saveTimer = 0;
  const kept = { messages, system: $("system").value, temperature: $("temperature").value, longest: $("longest").value };
  if (!store(kConversation, JSON.stringify(kept))) show($("failure"), "The browser has no room to keep this conversation over a reload.");
}
const saveSoon = () => (saveTimer ||= setTimeout(save, 250));

function load() {
  let kept = null;
  try {
    kept = JSON.parse(stored(kConversation));
  } catch {
    store(kConversation, null);
  }
  if (!kept) return;
  messages = kept.messages;
  for (const name of ["system", "temperature", "longest"]) $(name).value = kept[name];
  const last = messages.at(-1);
  if (last?.state === "asking") last.state = "cut";
  for (const message of messages) $("talk").append(view(message));
  if (last?.state === "cut" && isEmpty(last)) takeBack();
}

export function forget() {
  answering?.abort();
  answering = null;
  messages = [];
  $("talk").replaceChildren();
  for (const name of ["question", "system", "longest"]) $(name).value = "";
  $("temperature").value = "1";
  $("said").textContent = "";
  show($("failure"), "");
  store(kConversation, null);
  clearTimeout(saveTimer);
  saveTimer = 0;
  refresh();
}

// ---- how it looks ----

const isEmpty = (m) => m.content === "" && m.reasoning === "" && m.calls.length === 0;

function view(message) {
  const item = make("li", { class: message.role });
  item.append(make("p", { class: "who" }, message.role === "user" ? "You" : "Answer"));
  message.view = { item, text: make("div", { class: "text", dir: "auto" }) };
  if (message.role === "assistant") {
    const details = make("details");
    const reasoning = make("div", { class: "text", dir: "auto" });
    details.append(make("summary", {}, "Reasoning"), reasoning);
    const again = make("button", { type: "button" }, "Continue this answer");
    again.addEventListener("click", () => {
      $("question").focus();
      answer(message);
    });
    Object.assign(message.view, { details, reasoning, calls: make("div"), note: make("p", { class: "note" }), again });
    item.append(details, message.view.text, message.view.calls, message.view.note, again);
  } else {
    item.append(message.view.text);
  }
  Object.defineProperty(message, "view", { enumerable: false });
  draw(message);
  return item;
}

// Sets an element's text; what is only longer is appended.
function setText(element, text) {
  const node = element.firstChild;
  if (node && text.length > node.length && text.startsWith(node.data)) node.appendData(text.slice(node.length));
  else if (element.textContent !== text) element.textContent = text;
}

function noteOf(m) {
  const parts = [];
  if (m.state === "asking") parts.push(m.content === "" && m.reasoning === "" ? "Computing…" : "Answering…");
  if (m.state === "stopped") parts.push("Stopped.");
  if (m.state === "cut") parts.push(m.error || "The page was loaded again before the answer was whole. The server has kept what it computed.");
  if (m.finish === "length") parts.push("The answer is as long as it may be.");
  if (m.usage) {
    const { prompt_tokens: all, prompt_tokens_details: { cached_tokens: cached }, completion_tokens: made } = m.usage;
    parts.push(`${cached} of ${all} tokens came from memory; ${made} generated.`);
  }
  return parts.join(" ");
}

function draw(m) {
  setText(m.view.text, m.content);
  if (m.role !== "assistant") return;
  setText(m.view.reasoning, m.reasoning);
  m.view.details.hidden = m.reasoning === "";
  while (m.view.calls.children.length < m.calls.length) {
    const call = m.calls[m.view.calls.children.length];
    m.view.calls.append(make("p", { class: "call" }, `${printable(call.name)}(${call.arguments})`));
  }
  m.view.text.setAttribute("aria-busy", String(m.state === "asking"));
  show(m.view.note, noteOf(m));
  m.view.again.hidden = m !== messages.at(-1) || isAnswering() || (m.state !== "stopped" && m.state !== "cut");
}

// An answer begins or ends.
function turn(controller) {
  answering = controller;
  refresh();
  save();
  events.dispatchEvent(new Event("answer"));
}

function refresh() {
  $("talk-empty").hidden = messages.length > 0;
  $("send").disabled = model === "" || isAnswering();
  if (!isAnswering() && document.activeElement === $("stop")) $("question").focus();
  $("stop").disabled = !isAnswering();
  for (const m of messages) draw(m);
}

// ---- questions and answers ----

// The last question comes back to its field, without the answer that it did not get.
function takeBack() {
  const [question, reply] = messages.splice(-2);
  for (const m of [question, reply]) m.view.item.remove();
  const field = $("question");
  field.value = field.value === "" ? question.content : `${question.content}\n${field.value}`;
}

function requestFor(message) {
  const said = messages.slice(0, messages.indexOf(message)).map(({ role, content }) => ({ role, content }));
  if ($("system").value.trim() !== "") said.unshift({ role: "system", content: $("system").value });
  const body = { model, messages: said, stream: true, stream_options: { include_usage: true }, seed: message.seed };
  if ($("temperature").value !== "") body.temperature = Number($("temperature").value);
  if ($("longest").value !== "") body.max_tokens = Number($("longest").value);
  return body;
}

// The words of an answer, as they come. One that was cut is given again by its seed: the words that are there stay until there are more.
async function receive(message, signal) {
  const response = await ask("/v1/chat/completions", { body: requestFor(message), signal });
  let content = "", reasoning = "";
  message.calls = [];
  message.view.calls.replaceChildren();
  const longer = (now, before) => (before.startsWith(now) ? before : now);
  for await (const event of streamed(response)) {
    const choice = event.choices?.[0];
    content += choice?.delta?.content ?? "";
    reasoning += choice?.delta?.reasoning_content ?? "";
    for (const call of choice?.delta?.tool_calls ?? []) {
      message.calls.push({ name: String(call.function?.name), arguments: String(call.function?.arguments) });
    }
    message.content = longer(content, message.content);
    message.reasoning = longer(reasoning, message.reasoning);
    message.finish = choice?.finish_reason ?? message.finish;
    message.usage = event.usage ?? message.usage;
    const atEnd = innerHeight + scrollY >= document.body.scrollHeight - 8;
    draw(message);
    if (atEnd) scrollTo(0, document.body.scrollHeight);
    saveSoon();
  }
  Object.assign(message, { content, reasoning });
}

async function answer(message) {
  const era = eraSignal();
  const mine = new AbortController();
  Object.assign(message, { state: "asking", error: "", usage: null, finish: "" });
  $("said").textContent = "The answer comes.";
  turn(mine);
  try {
    await receive(message, mine.signal);
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
    $("said").textContent = `${{ done: "Answer", stopped: "Stopped", cut: message.error }[message.state]}: ${message.content}`;
  }
  turn(null);
}

function send() {
  const text = $("question").value;
  if (isAnswering() || model === "" || text.trim() === "") return;
  for (const name of ["temperature", "longest"]) {
    if ($(name).checkValidity()) continue;
    $("settings").open = true;
    $(name).reportValidity();
    return;
  }
  $("question").value = "";
  show($("failure"), "");
  const seed = crypto.getRandomValues(new Uint32Array(1))[0];
  messages.push({ role: "user", content: text }, { role: "assistant", content: "", reasoning: "", calls: [], seed });
  for (const m of messages.slice(-2)) {
    m.state ??= m.role === "user" ? "done" : "asking";
    $("talk").append(view(m));
  }
  answer(messages.at(-1));
}

export function begin() {
  load();
  refresh();
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  $("question").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  $("stop").addEventListener("click", () => answering?.abort());
  $("new").addEventListener("click", () => {
    const kept = ["system", "temperature", "longest"].map((name) => [name, $(name).value]);
    forget();
    for (const [name, value] of kept) $(name).value = value;
    $("question").focus();
  });
  for (const name of ["system", "temperature", "longest"]) $(name).addEventListener("change", save);
  addEventListener("beforeunload", () => (leaving = true));
  addEventListener("pagehide", save);
}
