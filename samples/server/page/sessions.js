// The list of the caller's sessions, as the server has it.
import { ask, events } from "./api.js";

let entries = []; // the newest last
let tag = "";

export const list = () => entries;

export function forgetList() {
  entries = [];
  tag = "";
  events.dispatchEvent(new Event("list"));
}

// A name that was given by hand, else the first words.
export const titleOf = (entry) => (/^(chat|text|resp)-/.test(entry.name) ? entry.title || entry.last || "Without words" : entry.name);

// Reads it anew. "list": it has changed.
export async function readList(signal) {
  for (let unread = 1; unread > 0;) {
    const response = await ask("/v1/kvrt/sessions", { headers: tag === "" ? {} : { "If-None-Match": tag }, signal });
    if (response.status === 304) break;
    const data = await response.json();
    unread = data.unread;
    tag = unread > 0 ? "" : (response.headers.get("ETag") ?? "");
    const when = (e) => (e.state === "computing" || e.saved_unix_ms === 0 ? Infinity : e.saved_unix_ms);
    entries = data.data.sort((a, b) => (when(a) === when(b) ? 0 : when(a) - when(b)));
    events.dispatchEvent(new Event("list"));
  }
  return entries;
}

const pathOf = (name) => `/v1/kvrt/sessions/${encodeURIComponent(name)}`;

export const readSession = async (name, signal) => (await ask(pathOf(name), { signal })).json();
export const removeSession = (name) => ask(pathOf(name), { method: "DELETE" });
