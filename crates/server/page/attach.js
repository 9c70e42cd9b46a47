// A text file that goes with the next message: read here, refused where it is no text or too large.

import { byId } from "./dom.js";
import { bytes, count } from "./format.js";

// What a server that has not told of itself is taken for.
const CONTEXT = 2048;
/** Bytes of a file for each token of the context. English has four or more to a token: what is left is for the
 *  question and the answer. */
const BYTES_PER_TOKEN = 3;

// Control characters that no text has.
const BINARY = /[\0-\x08\x0e-\x1a\x1c-\x1f]/;

/** The text that these bytes are; null where they are none. */
function decoded(buffer) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(buffer);
  } catch {
    return null;
  }
}

/** The file as `{name, text}`. What is thrown says why it cannot be attached. */
export async function readText(file, context = CONTEXT) {
  const most = context * BYTES_PER_TOKEN;
  if (file.size > most) {
    throw new Error(`${file.name} has ${bytes(file.size)}. The context of this server is ${count(context, "token")}, so a file may have ${bytes(most)}: attach a part of it.`);
  }
  const text = decoded(await file.arrayBuffer());
  if (text === null || BINARY.test(text)) throw new Error(`${file.name} is not a text file in UTF-8, so the models cannot read it.`);
  if (text.trim() === "") throw new Error(`${file.name} is empty.`);
  return { name: file.name, text: text.replaceAll("\r\n", "\n").trimEnd() };
}

/** The button that attaches a file, and the line that shows it. One file at a time. */
export class Attachment {
  #file = null;

  /** `context` gives the server's context in tokens, once it is known. */
  constructor(context) {
    this.context = context;
    this.field = byId("file");
    byId("attach").addEventListener("click", () => this.field.click());
    byId("detach").addEventListener("click", () => {
      this.#show(null);
      byId("attach").focus();
    });
    this.field.addEventListener("change", () => this.#take());
  }

  async #take() {
    const [file] = this.field.files;
    // Else the same file could not be chosen again.
    this.field.value = "";
    if (!file) return;
    try {
      this.#show(await readText(file, this.context()));
    } catch (error) {
      this.#show(null, error.message);
    }
  }

  #show(file, problem = "") {
    this.#file = file;
    byId("attached").hidden = file === null;
    byId("attached-name").textContent = file ? `${file.name}, ${bytes(new TextEncoder().encode(file.text).length)}` : "";
    byId("attach-words").textContent = problem;
    byId("attach-words").hidden = problem === "";
  }

  /** The file, which the next message does not have again. */
  take() {
    const file = this.#file;
    this.#show(null);
    return file ?? undefined;
  }

  get any() {
    return this.#file !== null;
  }
}
