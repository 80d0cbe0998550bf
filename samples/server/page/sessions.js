// The list of the caller's sessions, as the server has it.
import { ask, events, read } from "./api.js";
import { messageOf } from "./branches.js";

let entries = []; // the newest last
let tag = "";

export const list = () => entries;

export function forgetList() {
  entries = [];
  tag = "";
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
    entries = data.data.sort((a, b) => (when(a) === when(b) ? 0 : when(a) - when(b)));
    events.dispatchEvent(new Event("list"));
  }
  return entries;
}

const pathOf = (name) => `/v1/kvrt/sessions/${encodeURIComponent(name)}`;

// What the server has of a session, without its system message.
export async function readBranch(name, signal) {
  const { messages, whole } = (await read(pathOf(name), { signal })).data;
  const system = messages[0]?.role === "system" ? messages[0].content : "";
  const said = system === "" ? messages : messages.slice(1);
  return { system, whole, messages: said.map((m, i) => messageOf(m, i === said.length - 1 && !whole)) };
}

export const removeSession = (name) => ask(pathOf(name), { method: "DELETE" });
