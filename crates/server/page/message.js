// What a user says in a turn: text, a file with it, or the results of tools.

/** Marks of code that nothing in `text` ends. */
export function fence(text) {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((match) => match[0].length));
  return "`".repeat(longest + 1);
}

/** The text of a turn as the models read it, with its file. */
export function contentOf({ text, file }) {
  if (!file) return text;
  const marks = fence(file.text);
  return `${text}\n\nThe file ${file.name}:\n${marks}\n${file.text}\n${marks}`.trimStart();
}

/** What is shown of a turn, and what its conversation is called by. */
export function titleOf({ text, file, results }) {
  if (results) return results.map(({ name }) => `Result of ${name}`).join(", ");
  return text || file?.name || "";
}

/** A turn's own messages, in the API's words. */
export function said(turn) {
  if (turn.results) return turn.results.map(({ id, text }) => ({ role: "tool", tool_call_id: id, content: text }));
  return [{ role: "user", content: contentOf(turn) }];
}

/** An answer as a message of the conversation. */
export function written({ text, content, calls }) {
  if (calls.length === 0) return { role: "assistant", content: text };
  const tool_calls = calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
  return { role: "assistant", content: content || null, tool_calls };
}
