// A conversation and its branches, {mark, system, messages}. Each branch is a session of the server, which shares the KV of what it has in common
// with the others. The server keeps its mark with it, GROUP.BRANCH, by which they are found again; the mark "=NAME" is a session that another
// client began. A message is {role, content}, an answer also {reasoning, calls, sampling, state: asking | done | stopped | cut, finish, usage, error}.

const kMarks = "abcdefghijklmnopqrstuvwxyz0123456789";

function random(length) {
  return [...crypto.getRandomValues(new Uint8Array(length))].map((n) => kMarks[n % kMarks.length]).join("");
}

export const newMark = () => `${random(8)}.${random(4)}`;
export const newBranch = (mark) => `${groupIn(mark)}.${random(4)}`;
export const groupIn = (mark) => mark.split(".")[0];

// The mark of a session of the list.
export const markOf = (entry) => (entry.conversation === "" ? `=${entry.name}` : entry.conversation);

// What groups a session of the list: its mark's first part, or its own name.
export const groupOf = (entry) => (entry.conversation === "" ? markOf(entry) : groupIn(entry.conversation));

// Without reasoning: the page does not send that back, so the server has it of the last answer alone.
const same = (a, b) => a.role === b.role && a.content === b.content;

// True of an answer without a word.
export const isEmpty = (m) => m.content === "" && m.reasoning === "" && m.calls.length === 0;

// How many messages two branches have in common.
export function common(a, b) {
  let n = 0;
  while (n < a.length && n < b.length && same(a[n], b[n])) ++n;
  return n;
}

// Adds a branch to those of its conversation. A mark is one branch's: if two tabs said different words with it, those before get another mark.
// The last message may still grow.
export function add(branches, branch) {
  const other = branches.get(branch.mark);
  if (other && common(other.messages, branch.messages) < Math.min(other.messages.length, branch.messages.length) - 1) {
    const mark = newBranch(branch.mark);
    branches.set(mark, { ...other, mark });
  }
  branches.set(branch.mark, branch);
}

// By message: which of its alternatives is shown, and the marks of the branches with the ones before and after it. `branches`: by mark, the oldest
// first. An answer that has no word yet is none.
export function variantsOf({ mark, messages: own }, branches) {
  const at = new Map(); // by message: [[mark, message]] of the alternatives
  for (const [other, { messages }] of branches) {
    if (other === mark) continue;
    const n = common(own, messages);
    if (n >= own.length || n >= messages.length || isEmpty(messages[n])) continue;
    if (!at.has(n)) at.set(n, []);
    const known = at.get(n).find(([, m]) => same(m, messages[n]));
    if (known) known[0] = other; // the newest with it
    else at.get(n).push([other, messages[n]]);
  }
  const order = [...branches.keys()];
  const out = new Map();
  for (const [n, others] of at) {
    const all = [...others, [mark, own[n]]].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
    const i = all.findIndex(([m]) => m === mark);
    out.set(n, { at: i + 1, of: all.length, before: all[i - 1]?.[0], after: all[i + 1]?.[0] });
  }
  return out;
}

// A message of the server as the page has it.
export function messageOf(m, last) {
  const calls = (m.tool_calls ?? []).map((c) => ({ id: String(c.id), name: String(c.function.name), arguments: String(c.function.arguments) }));
  const out = { role: String(m.role), content: String(m.content), state: "done" };
  if (out.role === "assistant") Object.assign(out, { reasoning: String(m.reasoning_content ?? ""), calls, usage: null, error: "", finish: "" });
  if (out.role === "tool") out.call = String(m.tool_call_id ?? "");
  if (last && out.role === "assistant") out.state = "cut";
  return out;
}

// A message of the page as the server takes it.
export function requestOf(m) {
  const out = { role: m.role, content: m.content };
  if (m.role === "tool") out.tool_call_id = m.call;
  if (m.calls?.length > 0)
    out.tool_calls = m.calls.map((c, i) => ({ id: c.id ?? `call_${i}`, type: "function", function: { name: c.name, arguments: c.arguments } }));
  return out;
}
