// JSON and calls of tools in an answer, laid out to be read. Every sign still belongs to the token that
// wrote it, so that who wrote what can be seen there too.

import { count } from "./format.js";

// A call as the server has its models write it, and JSON between the marks of Markdown.
const CALL = /<tool_call>\s*(\{[\s\S]*?\})\s*<\/tool_call>/g;
const FENCED = /^```(?:json)?[ \t]*\n([\s\S]*?)\n```[ \t]*$/gm;
const INDENT = "  ";

/** The object or list that `text` is; null for anything else. */
function structure(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

/** What is in a value, in a few words. */
function title(value) {
  return Array.isArray(value) ? `JSON, ${count(value.length, "item")}` : `JSON, ${count(Object.keys(value).length, "field")}`;
}

/** The parts of `text` that are JSON, in order: where the whole part is, where its JSON is, what it is called. */
function parts(text) {
  const found = [];
  const within = (expression, name) => {
    for (const match of text.matchAll(expression)) {
      const value = structure(match[1]);
      if (value === null) continue;
      const begin = match.index + match[0].indexOf(match[1]);
      found.push({ from: match.index, to: match.index + match[0].length, begin, end: begin + match[1].length, name: name(value) });
    }
  };
  within(CALL, (call) => (typeof call.name === "string" ? `Call of ${call.name}` : title(call)));
  if (found.length === 0) within(FENCED, title);
  const whole = found.length === 0 ? structure(text) : null;
  if (whole !== null) found.push({ from: 0, to: text.length, begin: 0, end: text.length, name: title(whole) });
  return found;
}

/** The signs of the JSON from `begin` to `end`, each with its place in the text, and the white space that
 *  makes them readable, which has none. */
function* laid(text, begin, end) {
  let depth = 0;
  let quoted = false;
  const line = () => [null, `\n${INDENT.repeat(depth)}`];
  const next = (at) => {
    while (at < end && /\s/.test(text[at])) at += 1;
    return at;
  };
  for (let at = begin; at < end; at += 1) {
    const sign = text[at];
    if (quoted) {
      yield [at, sign];
      if (sign === "\\") {
        at += 1;
        yield [at, text[at]];
      } else if (sign === '"') quoted = false;
    } else if (sign === "{" || sign === "[") {
      yield [at, sign];
      const after = next(at + 1);
      if (text[after] === "}" || text[after] === "]") {
        yield [after, text[after]];
        at = after;
      } else {
        depth += 1;
        yield line();
      }
    } else if (sign === "}" || sign === "]") {
      depth -= 1;
      yield line();
      yield [at, sign];
    } else if (!/\s/.test(sign)) {
      yield [at, sign];
      quoted = sign === '"';
      if (sign === ",") yield line();
      if (sign === ":") yield [null, " "];
    }
  }
}

/** The signs from `from` to `to` as they are. */
function* plain(text, from, to) {
  for (let at = from; at < to; at += 1) yield [at, text[at]];
}

/** A part with what stands around its JSON on lines of its own. */
function* around(text, { from, to, begin, end }) {
  const before = text.slice(from, begin).trimEnd().length;
  yield* plain(text, from, from + before);
  if (before > 0) yield [null, "\n"];
  yield* laid(text, begin, end);
  const gap = text.slice(end, to).length - text.slice(end, to).trimStart().length;
  if (end + gap < to) yield [null, "\n"];
  yield* plain(text, end + gap, to);
}

/** Signs joined to pieces of one token each: `{index, text}`, where white space that was added has null. */
function pieces(signs, tokens) {
  const joined = [];
  let index = 0;
  let beyond = tokens[0].text.length;
  for (const [at, sign] of signs) {
    while (at !== null && at >= beyond) {
      index += 1;
      beyond += tokens[index].text.length;
    }
    const owner = at === null ? null : index;
    const last = joined.at(-1);
    if (last && last.index === owner) last.text += sign;
    else joined.push({ index: owner, text: sign });
  }
  return joined;
}

/** The blocks of an answer whose tokens hold JSON: `{name, pieces}`, where plain text has no name. Null for an
 *  answer without any. */
export function blocks(tokens) {
  const text = tokens.map((token) => token.text).join("");
  const found = parts(text);
  if (found.length === 0) return null;
  const all = [];
  let at = 0;
  const through = (to) => {
    if (text.slice(at, to).trim() !== "") all.push({ name: null, pieces: pieces(plain(text, at, to), tokens) });
  };
  for (const part of found) {
    through(part.from);
    all.push({ name: part.name, pieces: pieces(around(text, part), tokens) });
    at = part.to;
  }
  through(text.length);
  return all;
}

/** JSON on several lines; what is no JSON stays as it is. */
export function pretty(text) {
  const value = structure(text);
  return value === null ? text : JSON.stringify(value, null, INDENT);
}
