// The page: the API key, the model, and what keeps both halves up to date.
import { $, isSeen, printable, show } from "./dom.js";
import { ApiError, events, hasKey, read, setKey } from "./api.js";
import { groupOf, markOf } from "./branches.js";
import * as chat from "./chat.js";
import * as conversations from "./conversations.js";
import * as graph from "./graph.js";
import { forgetList, list, readList, titleOf } from "./sessions.js";

const kPollMs = 1000, kAnswerMs = 300, kSlowMs = 5000;
let tag = ""; // of the graph that is shown
let modelKnown = false;
let names = null; // of the sessions in the picture
let listIsOld = true;
let timer = 0;
let round = 0; // of polls: a new one ends those before

async function readModel() {
  const [model] = (await read("/v1/models")).data.data;
  modelKnown = true;
  chat.setModel(model.id, model.suggested_sampling ?? {});
  $("model").textContent = `${printable(model.id)} · ${model.max_model_len.toLocaleString("en")} tokens of context`;
}

async function readWords() {
  listIsOld = false;
  try {
    await readList();
  } catch (error) {
    listIsOld = true;
    throw error;
  }
}

// One look at the server; the milliseconds until the next.
async function look(isLast) {
  try {
    if (!modelKnown) await readModel();
    if (listIsOld) await readWords();
    const { data, tag: newTag } = await read("/v1/kvrt/graph", { tag });
    if (!isLast()) return 0; // another look began: what it sees is newer
    tag = newTag;
    if (data) {
      graph.draw(data);
      const now = data.sessions.map((s) => s.name).sort().join("\n") + data.more;
      const known = new Set(list().map((e) => e.name));
      const isNew = data.sessions.some((s) => !known.has(s.name)); // one may have come since the list was read
      if (now !== names && (names !== null || isNew)) await readWords();
      names = now;
    }
    show($("server-note"), "");
    $("key-forget").hidden = !hasKey();
    if (!isSeen($("memory"))) return kSlowMs; // the list needs no more
    return data?.unread > 0 ? 50 : chat.isAnswering() ? kAnswerMs : kPollMs;
  } catch (error) {
    if (error.name === "AbortError") return kPollMs;
    if (error.status === 401) return 0; // until there is a key
    modelKnown = false; // it may be another server that comes back
    show($("server-note"), error instanceof ApiError ? error.message : `This page failed: ${error.message}`);
    return kSlowMs;
  }
}

async function poll() {
  clearTimeout(timer);
  const mine = ++round;
  if (document.visibilityState !== "visible") return;
  const ms = await look(() => mine === round);
  if (mine === round && ms > 0) timer = setTimeout(poll, ms);
}

events.addEventListener("key", () => {
  tag = "";
  modelKnown = false;
  chat.forget();
  chat.setModel("", {});
  graph.forget();
  forgetList();
  listIsOld = true;
  names = null;
  $("model").textContent = "";
  $("key").value = "";
  $("key-form").hidden = true;
  $("key-forget").hidden = true;
  show($("server-note"), "");
  poll();
});
events.addEventListener("refused", () => {
  if (!$("key-form").hidden) return;
  $("key-note").textContent = hasKey() ? "The server does not know this key. Yours is kept in this tab alone."
                                       : "This server answers to API keys. Yours is kept in this tab alone.";
  $("key-form").hidden = false;
  $("key").focus();
});
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("key").value.trim();
  if (/^[\x21-\x7e]+$/.test(text)) {
    $("key-form").hidden = true;
    setKey(text);
    poll(); // also with the key that was refused
    $("question").focus();
  } else {
    $("key-note").textContent = "A key has letters, digits and signs, without a space.";
  }
});
$("key-forget").addEventListener("click", () => setKey(""));
events.addEventListener("model", () => (modelKnown = false));
events.addEventListener("answer", () => {
  listIsOld = true;
  poll();
});
document.addEventListener("visibilitychange", poll);

// What sessions are called in the picture.
function name() {
  const words = new Map();
  let now = "";
  for (const entry of list()) {
    if (entry.messages > 0) words.set(entry.name, { title: titleOf(entry), last: entry.last, group: groupOf(entry) });
    if (markOf(entry) === chat.shown()) now = entry.name;
  }
  graph.setWords(words, now, (wanted) => {
    const entry = list().find((e) => e.name === wanted);
    if (entry) chat.open(entry);
  });
}
events.addEventListener("list", name);
events.addEventListener("talk", name);

// Where there is no room for all parts, one is shown.
function lookAt(part) {
  document.body.dataset.view = part;
  for (const b of $("views").querySelectorAll("button")) b.setAttribute("aria-pressed", String(b.dataset.view === part));
  if (!isSeen(document.activeElement)) $("scroll").focus();
  if (part === "memory") poll();
}
for (const b of $("views").querySelectorAll("button")) b.addEventListener("click", () => lookAt(b.dataset.view));
events.addEventListener("chat", () => lookAt("chat"));
$("new").addEventListener("click", () => {
  lookAt("chat");
  chat.begin();
});
$("settings-open").addEventListener("click", () => $("settings").showModal());
$("settings").addEventListener("click", (event) => {
  if (event.target === $("settings")) $("settings").close(); // beside it
});

conversations.start();
chat.start();
poll();
