// Requests to the server, with the user's API key. A key is a domain: nothing that came by one key stays when it changes.

const kKey = "kvrt.key", kWaitMs = 15_000; // for what is read
let key = stored(kKey) ?? "";
let era = new AbortController(); // of the key: ends all its requests

// "key": it has changed; "refused": the server wants one; "model": the server has another; "answer": one begins or ends; "talk": another is shown;
// "chat": it is to be looked at
export const events = new EventTarget();

export class ApiError extends Error {
  constructor(message, status = 0, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// sessionStorage, which may be switched off or full.
export function stored(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}
export function store(name, value) {
  try {
    if (value === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, value);
    return true;
  } catch {
    return false;
  }
}

export const hasKey = () => key !== "";
export const eraSignal = () => era.signal;

export function setKey(text) {
  if (text === key) return;
  key = text;
  store(kKey, key === "" ? null : key);
  era.abort();
  era = new AbortController();
  events.dispatchEvent(new Event("key"));
}

const noAnswer = (error) => new ApiError(`The server does not answer (${error.message}).`);

// The response; ApiError if there is none or it is an error's. An abort is an AbortError.
export async function ask(path, { body, headers = {}, signal, method = body === undefined ? "GET" : "POST" } = {}) {
  const own = era;
  const all = { ...headers };
  if (key !== "") all.Authorization = `Bearer ${key}`;
  if (body !== undefined) all["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method, body: body === undefined ? undefined : JSON.stringify(body),
      headers: all, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
      signal: signal ? AbortSignal.any([own.signal, signal]) : own.signal,
    });
  } catch (error) {
    throw error.name === "AbortError" ? error : noAnswer(error);
  }
  if (response.ok || response.status === 304) return response;
  let told = {};
  try {
    told = (await response.json()).error ?? {};
  } catch (error) {
    if (error.name === "AbortError") throw error; // else it is not the server's own error
  }
  if (response.status === 401 && own === era) events.dispatchEvent(new Event("refused"));
  if (told.code === "model_not_found") events.dispatchEvent(new Event("model"));
  throw new ApiError(String(told.message ?? `The server answers with status ${response.status}.`), response.status, String(told.code ?? ""));
}

// What is at a path: {data, tag}, without data if it has not changed since `tag`. It comes whole within kWaitMs: a connection may be gone unnoticed.
export async function read(path, { tag = "", signal } = {}) {
  const late = AbortSignal.timeout(kWaitMs);
  const headers = tag === "" ? {} : { "If-None-Match": tag };
  const response = await ask(path, { headers, signal: signal ? AbortSignal.any([signal, late]) : late });
  if (response.status === 304) return { tag };
  try {
    return { data: await response.json(), tag: response.headers.get("ETag") ?? "" };
  } catch (error) {
    throw error.name === "AbortError" ? error : noAnswer(error);
  }
}

// The JSON of each event of a stream. Ends with [DONE]; ApiError where the stream ends without it.
export async function* streamed(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data:")) continue;
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        const event = JSON.parse(data);
        if (event.error) throw new ApiError(String(event.error.message), 0, String(event.error.code));
        yield event;
      }
    }
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError(`The answer was cut: ${error.message}.`);
  } finally {
    reader.cancel().catch(() => {});
  }
  throw new ApiError("The answer was cut: the connection ended.");
}
