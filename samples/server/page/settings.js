// The settings that answers are asked for with. The field of the system message has the one of the conversation that is shown; the user's own
// waits for the next new conversation.
import { $ } from "./dom.js";

const kFields = ["system", "temperature", "longest"];
let model = "";
let suggested = {}; // sampling, as fields of a request
let own = ""; // the user's system message

export const modelNow = () => model;

export function setModel(name, sampling) {
  model = name;
  suggested = sampling;
  $("temperature").placeholder = sampling.temperature ?? "";
}

export const systemNow = () => ($("system").value.trim() === "" ? "" : $("system").value);

export function showSystem(text = own) {
  $("system").value = text;
}

// As fields of a request, with a new seed: the same fields give the same words again.
export function samplingNow() {
  const temperature = $("temperature").value === "" ? {} : { temperature: Number($("temperature").value) };
  return { ...suggested, ...temperature, seed: crypto.getRandomValues(new Uint32Array(1))[0] };
}

// Tokens of an answer; 0: up to the end of the context.
export const longestNow = () => Number($("longest").value);

// False: the user is shown what is wrong.
export function areRight() {
  const wrong = ["temperature", "longest"].find((name) => !$(name).checkValidity());
  if (!wrong) return true;
  if (!$("settings").open) $("settings").showModal();
  $(wrong).reportValidity();
  return false;
}

export const kept = () => ({ own, ...Object.fromEntries(kFields.map((name) => [name, $(name).value])) });

export function restore(values = {}) {
  own = values.own ?? "";
  for (const name of kFields) $(name).value = values[name] ?? "";
}

export function start(changed) {
  $("system").addEventListener("change", () => (own = $("system").value));
  for (const name of kFields) $(name).addEventListener("change", changed);
}
