// What can go wrong, and what to say then: what happened, and what to do.

/** A failure with its kind: key, busy, refused, server, unreachable, lost or stream. */
export class Problem extends Error {
  constructor(kind, message = "", { status = 0, retryAfter = null } = {}) {
    super(message);
    this.name = "Problem";
    this.kind = kind;
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** Seconds to wait by a `Retry-After` header, which holds seconds or a date; null without one. */
export function retryAfter(header, now = Date.now()) {
  if (!header) return null;
  if (/^\d+$/.test(header.trim())) return Number(header);
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, Math.ceil((date - now) / 1000));
}

/** The problem that a response with an error status stands for. */
export async function refusal(response) {
  const told = await response
    .json()
    .then((body) => body?.error?.message ?? "")
    .catch(() => "");
  const facts = { status: response.status, retryAfter: retryAfter(response.headers.get("retry-after")) };
  // A 403 is what the operator does not allow, whoever asks: no key would change it.
  if (response.status === 401) return new Problem("key", told, facts);
  if (response.status === 429 || response.status === 503) return new Problem("busy", told, facts);
  if (response.status >= 500) return new Problem("server", told, facts);
  return new Problem("refused", told, facts);
}

/** A server's message as a sentence of its own. */
const sentence = (text) => (text === "" ? "" : `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`);

/** A title, what to do, and whether trying again can help. */
export function words(problem) {
  const told = sentence(problem.message);
  switch (problem.kind) {
    case "key":
      return {
        title: "The server wants an access key.",
        advice: `${told} Enter the key that whoever runs this server gave you, then try again.`.trim(),
      };
    case "busy":
      return {
        title: "The server is busy.",
        advice:
          problem.retryAfter === null
            ? `${told} Try again in a moment.`.trim()
            : `${told} It says to try again in ${problem.retryAfter === 1 ? "1 second" : `${problem.retryAfter} seconds`}.`.trim(),
      };
    case "refused":
      return {
        title: `The server did not take this request (${problem.status}).`,
        advice: told || "Change the message or the settings, then try again.",
      };
    case "server":
      return {
        title: `The server failed (${problem.status}).`,
        advice: `${told} Try again; if it fails again, its log says why.`.trim(),
      };
    case "stream":
      return {
        title: "The answer broke off: the server met an error.",
        advice: `${told} The text so far is kept. Try again to have it written anew.`.trim(),
      };
    case "lost":
      return {
        title: "The connection was lost.",
        advice: "The text so far is kept. Check that the server is still running, then try again.",
      };
    default:
      return {
        title: "The server cannot be reached.",
        advice: "Check that tandem serve is still running and that this device is connected, then try again.",
      };
  }
}
