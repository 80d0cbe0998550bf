// How the messages of a conversation look.
import { isEmpty } from "./branches.js";
import { button, copyButton, isComposing, make, printable, sends, show } from "./dom.js";
import { Markdown } from "./markdown.js";

// True where the model can go on with it.
const isCut = (m) => m.state === "stopped" || m.state === "cut" || (m.state === "done" && m.finish === "length");

// The element of a message. `act`: what its buttons do with it.
export function view(message, act) {
  const item = make("li", { class: message.role });
  item.append(make("p", { class: "unseen" }, { user: "You said:", assistant: "Answer:", tool: "Result of a tool:" }[message.role] ?? message.role));
  const v = { item, text: make("div", { class: "text", dir: "auto" }), acts: make("div", { class: "acts" }), variants: make("span", { class: "variants" }) };
  Object.defineProperty(message, "view", { value: v, enumerable: false, writable: true });
  if (message.role === "assistant") {
    v.details = make("details");
    v.reasoning = make("div", { class: "text", dir: "auto" });
    v.details.append(make("summary", {}, "Reasoning"), v.reasoning);
    v.calls = make("div");
    v.note = make("p", { class: "note" });
    v.again = button("Continue", () => act.goOn(message), { class: "again" });
    v.words = new Markdown(v.text);
    v.acts.append(v.variants, copyButton(() => message.content, "Copy the answer"), button("Retry", () => act.retry(message), { class: "quiet" }));
    item.append(v.details, v.text, v.calls, v.again, v.note, v.acts);
  } else {
    v.acts.append(v.variants, button("Edit", () => act.edit(message), { class: "quiet" }));
    item.append(v.text, v.acts);
  }
  if (message.role !== "tool") v.acts.append(button("Fork", () => act.fork(message), { class: "quiet", title: "A new conversation that begins with all up to here" }));
  else v.acts.hidden = true;
  return item;
}

// Sets an element's text; what is only longer is appended.
function setText(element, text) {
  const node = element.firstChild;
  if (node && text.length > node.length && text.startsWith(node.data)) node.appendData(text.slice(node.length));
  else if (element.textContent !== text) element.textContent = text;
}

const round = (x) => (x < 10 ? x.toFixed(1) : Math.round(x).toLocaleString("en"));

function speedOf(m) {
  const parts = [];
  if (m.firstMs !== undefined) parts.push(`First token after ${m.firstMs < 1000 ? `${Math.round(m.firstMs)} ms` : `${round(m.firstMs / 1000)} s`}`);
  if (m.perSecond > 0) parts.push(`${round(m.perSecond)} tokens a second`);
  const { accepted_prediction_tokens: right = 0, rejected_prediction_tokens: wrong = 0 } = m.usage.completion_tokens_details ?? {};
  if (right + wrong > 0) parts.push(`${right.toLocaleString("en")} of ${(right + wrong).toLocaleString("en")} proposed tokens were right`);
  return parts.length === 0 ? "" : `${parts.join(", ")}.`;
}

// What it was worth that kvrt remembers.
function worthOf({ prompt_tokens: all, prompt_tokens_details: { cached_tokens: cached } }) {
  if (cached === 0) return `The ${all.toLocaleString("en")} tokens of the prompt were computed; what comes next has them.`;
  return `${cached.toLocaleString("en")} of ${all.toLocaleString("en")} tokens were not computed again.`;
}

function noteOf(m, last) {
  const parts = [];
  if (m.state === "asking") parts.push(isEmpty(m) ? "Computing…" : m.perSecond > 0 ? `Answering, ${round(m.perSecond)} tokens a second…` : "Answering…");
  if (m.state === "stopped") parts.push("Stopped.");
  if (m.state === "cut" && (last || m.error)) parts.push(m.error || "The answer was cut. The server has kept what it computed.");
  if (m.state === "done" && m.finish === "length") parts.push("Cut at the limit of tokens.");
  if (m.usage) parts.push(worthOf(m.usage), speedOf(m));
  return parts.filter((part) => part !== "").join(" ");
}

// `last`: nothing comes after it. `goesOn`: it may be continued. `busy`: an answer is being given. `variants`: {at, of, before, after} of it and its
// alternatives.
export function draw(m, { last, goesOn, busy, variants }, act) {
  m.view.text.source = m.content; // as it came
  m.view.acts.hidden = m.role === "tool" || m.state === "asking";
  drawVariants(m, variants, act);
  for (const b of m.view.acts.querySelectorAll("button")) b.disabled = busy || b.dataset.to === "";
  if (m.role !== "assistant") return setText(m.view.text, m.content);
  m.view.words.set(m.content, m.state === "asking");
  setText(m.view.reasoning, m.reasoning);
  m.view.details.hidden = m.reasoning === "";
  while (m.view.calls.children.length > m.calls.length) m.view.calls.lastChild.remove();
  while (m.view.calls.children.length < m.calls.length) {
    const call = m.calls[m.view.calls.children.length];
    m.view.calls.append(make("p", { class: "call" }, `${printable(call.name)}(${call.arguments})`));
  }
  m.view.text.setAttribute("aria-busy", String(m.state === "asking"));
  m.view.item.dataset.state = m.state;
  show(m.view.note, noteOf(m, last));
  m.view.again.hidden = !goesOn || !isCut(m);
}

function drawVariants(m, variants, act) {
  const looks = JSON.stringify(variants ?? "");
  if (m.view.variants.dataset.looks === looks) return;
  m.view.variants.dataset.looks = looks;
  m.view.variants.replaceChildren();
  if (!variants) return;
  const step = (sign, label, to = "") => button(sign, () => act.show(to), { class: "quiet", "aria-label": label, "data-to": to });
  m.view.variants.append(step("‹", "The branch before", variants.before), make("span", {}, `${variants.at} / ${variants.of}`),
                         step("›", "The next branch", variants.after));
}

// The question becomes a field, which hides it; `done` gets the new text, and says whether it took it.
export function edit(message, done) {
  const { item, acts } = message.view;
  const form = make("form", { class: "edit" });
  const field = make("textarea", { "aria-label": "The question, edited", rows: 3, dir: "auto" });
  field.value = message.content;
  const bar = make("div", { class: "acts" });
  const send = make("button", { class: "main" }, "Ask");
  bar.append(send, button("Cancel", () => {
    form.remove();
    acts.querySelector("button:not(:disabled)")?.focus();
  }));
  form.append(field, bar);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim() !== "" && done(field.value)) form.remove();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !isComposing(event)) bar.lastChild.click();
    if (!sends(event)) return;
    event.preventDefault();
    form.requestSubmit();
  });
  item.append(form);
  field.focus();
}
