// What is asked of the server for an answer of a branch, and its words as they come. `grown` is called with each piece.
import { ApiError, ask, streamed } from "./api.js";
import { common, isEmpty, markOf, requestOf } from "./branches.js";
import { readBranch, readList } from "./sessions.js";
import * as settings from "./settings.js";

const kSpeedMs = 200; // of an answer that a speed is told of
const kTries = 50, kTryMs = 100; // for a session whose connection ended a moment ago

function requestFor({ mark, system, messages }, message) {
  const said = messages.slice(0, messages.indexOf(message)).map(requestOf);
  if (system !== "") said.unshift({ role: "system", content: system });
  const sampling = message.sampling ?? settings.samplingNow();
  const body = { ...sampling, model: settings.modelNow(), messages: said, stream: true, stream_options: { include_usage: true } };
  if (settings.longestNow() > 0) body.max_tokens = settings.longestNow();
  body.chat_template_kwargs = { kvrt_conversation: mark };
  return body;
}

// The words of an answer, as they come, after what there is of it. One that is given again by its seed: the words that are there stay until there
// are more.
async function receive(message, body, signal, grown, { content, reasoning } = { content: "", reasoning: "" }) {
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
    grown();
  }
  Object.assign(message, { content, reasoning });
}

export const give = (branch, message, signal, grown) => receive(message, requestFor(branch, message), signal, grown);

// What the server has of the last answer; null: nothing that goes with the words before it.
async function keptOf({ mark, messages }, signal) {
  const find = async () => (await readList(signal)).filter((e) => markOf(e) === mark).reverse();
  let entries = await find();
  for (let tries = 0; tries < kTries && entries.some((e) => e.state === "computing"); ++tries) {
    await new Promise((done) => setTimeout(done, kTryMs));
    entries = await find();
  }
  const at = messages.length - 1;
  for (const { name } of entries) {
    const kept = await readBranch(name, signal).catch((error) => {
      if (error.status !== 404) throw error;
    });
    const last = kept?.messages[at];
    if (last?.role === "assistant" && !isEmpty(last) && kept.messages.length === at + 1 && common(kept.messages, messages) >= at) return kept;
  }
  return null;
}

// The last answer goes on from what the server has of it. One that it does not have is given again by its seed, with the same words.
export async function goOn(branch, message, signal, grown) {
  const kept = await keptOf(branch, signal);
  if (kept) {
    const last = kept.messages.at(-1);
    Object.assign(message, { content: last.content, reasoning: last.reasoning, calls: last.calls });
    grown();
    if (kept.whole) return;
    const body = requestFor(branch, message);
    body.messages.push({ ...requestOf(message), ...(message.reasoning === "" ? {} : { reasoning_content: message.reasoning }) });
    body.continue_final_message = true;
    try {
      return await receive(message, body, signal, grown, last);
    } catch (error) {
      if (error.code !== "answer_not_found") throw error;
    }
  }
  if (!message.sampling && !isEmpty(message)) throw new ApiError("The server has not kept this answer. Retry gives another one.");
  message.sampling ??= settings.samplingNow();
  const body = requestFor(branch, message);
  if (body.max_tokens) body.max_tokens += message.made ?? 0;
  await receive(message, body, signal, grown);
}
