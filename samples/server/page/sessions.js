// The list of the caller's sessions, as the server has it.
import { ask, events, read } from "./api.js";
import { markOf, messageOf } from "./branches.js";

let entries = []; // the newest last
let tag = "";
let known = false; // the server has told them

export const list = () => entries;
export const isRead = () => known;

export function forgetList() {
  entries = [];
  tag = "";
  known = false;
  events.dispatchEvent(new Event("list"));
}

// True where somebody gave it its name.
export const isNamed = (entry) => !/^(chat|text|resp)-/.test(entry.name);

// That name, else the first words.
export const titleOf = (entry) => (isNamed(entry) ? entry.name : entry.title || entry.last || "Without words");

// Reads it anew. "list": it has changed.
export async function readList(signal) {
  for (let unread = 1; unread > 0;) {
    const { data, tag: now } = await read("/v1/kvrt/sessions", { tag, signal });
    if (!data) break;
    unread = data.unread;
    tag = unread > 0 ? "" : now;
    const when = (e) => (e.state === "computing" || e.saved_unix_ms === 0 ? Infinity : e.saved_unix_ms);
    known = true;
    entries = data.data.sort((a, b) => (when(a) === when(b) ? 0 : when(a) - when(b)));
    events.dispatchEvent(new Event("list"));
  }
  return entries;
}

const pathOf = (name) => `/v1/kvrt/sessions/${encodeURIComponent(name)}`;

// What the server has of a session: a branch, and whether its last answer is `whole`. A question without an answer has one that was cut.
export async function readBranch(name, signal) {
  const { data } = await read(pathOf(name), { signal });
  const [first] = data.messages;
  const system = first?.role === "system" ? String(first.content) : "";
  const said = system === "" ? data.messages : data.messages.slice(1);
  const isAnswered = said.at(-1)?.role !== "user", whole = data.whole && isAnswered;
  if (!isAnswered) said.push({ role: "assistant", content: "" });
  return { mark: markOf({ ...data, name }), system, whole, messages: said.map((m, i) => messageOf(m, i === said.length - 1 && !whole)) };
}

export const removeSession = (name) => ask(pathOf(name), { method: "DELETE" });
