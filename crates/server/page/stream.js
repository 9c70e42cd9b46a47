// Talking to the server: requests with the key, answers as a stream of server-sent events.

import { Problem, refusal } from "./problems.js";
import { key } from "./key.js";

/** Cuts text that arrives in pieces into the data of server-sent events. */
export class EventParser {
  #rest = "";
  #data = [];

  /** The events that became whole with `text`. */
  push(text) {
    const events = [];
    // A lone CR at the end may be half of a CRLF: it waits for what follows.
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length > 0) events.push(this.#data.join("\n"));
        this.#data = [];
      } else if (line.startsWith("data:")) {
        this.#data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
    return events;
  }
}

function headers() {
  const held = key();
  return held ? { authorization: `Bearer ${held}` } : {};
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("unreachable", error.message);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

/** The JSON at `path`. */
export async function get(path) {
  const response = await ask(path, { headers: headers() });
  try {
    return await response.json();
  } catch (error) {
    throw new Problem("lost", error.message);
  }
}

/** Posts `body` and yields the chunks of the answer, those that came together in one list; returns
 *  at `[DONE]`. */
export async function* chunks(path, body, signal) {
  const response = await ask(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers() },
    body: JSON.stringify(body),
    signal,
  });
  const parser = new EventParser();
  // Decoded here and not in a pipe: a pipe drops what it still holds when the connection breaks.
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { value, done } = await read(reader);
      // Every whole answer ends with [DONE], so an end without it is a cut connection.
      if (done) throw new Problem("lost");
      const events = parser.push(decoder.decode(value, { stream: true }));
      const end = events.indexOf("[DONE]");
      yield* batch(end === -1 ? events : events.slice(0, end));
      if (end !== -1) return;
    }
  } finally {
    // Frees the connection when the caller stops early; it may be broken already.
    reader.cancel().catch(() => {});
  }
}

/** The chunks of `events`; those before a faulty one are given out before it is thrown. */
function* batch(events) {
  const good = [];
  try {
    for (const event of events) good.push(chunk(event));
  } finally {
    if (good.length > 0) yield good;
  }
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("lost", error.message);
  }
}

function chunk(event) {
  let parsed;
  try {
    parsed = JSON.parse(event);
  } catch (error) {
    throw new Problem("stream", `The server sent something that is not JSON: ${error.message}`);
  }
  if (parsed.error) throw new Problem("stream", parsed.error.message ?? "");
  return parsed;
}
