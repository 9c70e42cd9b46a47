// Conversations kept in the browser, in its local storage and nowhere else: a list of them, and each under a
// key of its own. Together they stay below a bound; the oldest make room.

const LIST = "tandem-chats";
const ONE = "tandem-chat-";
const VERSION = 1;

/** Characters that all of them may have. Browsers give a page some five million. */
export const MOST = 2_000_000;

/** The browser's storage; null where it is switched off. */
export function storage() {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}

/** What was written before, or by another version: nothing where it cannot be read. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export class Store {
  #place;
  #most;

  constructor(place = storage(), most = MOST) {
    this.#place = place;
    this.#most = most;
  }

  /** Whether there is a place for conversations at all. */
  get works() {
    return this.#place !== null;
  }

  /** Those that are kept, the latest first: `{id, title, turns, changed, size}`. */
  list() {
    const list = parsed(this.#place?.getItem(LIST) ?? "[]");
    return Array.isArray(list) ? list : [];
  }

  /** What was kept under this id; null where it is gone or of another version. */
  load(id) {
    const kept = parsed(this.#place?.getItem(ONE + id) ?? "null");
    return kept?.version === VERSION ? kept.turns : null;
  }

  /** Keeps a conversation. Gives an empty string, or why it is not kept: "refused" by the browser, or too "long".
   *  Then an earlier state of it goes too, for it would pass for the whole. */
  save({ id, title, turns }, now = Date.now()) {
    if (!this.works) return "refused";
    const text = JSON.stringify({ version: VERSION, turns });
    const others = this.list().filter((each) => each.id !== id);
    const entry = { id, title, turns: turns.length, changed: now, size: text.length };
    if (text.length > this.#most) return this.#without(id, "long");
    const sum = () => others.reduce((all, each) => all + each.size, text.length);
    while (sum() > this.#most) this.#drop(others);
    for (;;) {
      try {
        this.#place.setItem(ONE + id, text);
        this.#place.setItem(LIST, JSON.stringify([entry, ...others]));
        return "";
      } catch {
        // The browser gives less than the bound; what is left shows whether it gives anything.
        if (others.length === 0) return this.#without(id, "refused");
        this.#drop(others);
      }
    }
  }

  #drop(others) {
    this.remove(others.pop().id);
  }

  #without(id, reason) {
    this.remove(id);
    return reason;
  }

  /** Forgets one. */
  remove(id) {
    if (!this.works) return;
    this.#place.removeItem(ONE + id);
    const left = this.list().filter((each) => each.id !== id);
    // The list only becomes shorter, so there is room for it.
    if (left.length > 0) this.#place.setItem(LIST, JSON.stringify(left));
    else this.#place.removeItem(LIST);
  }

  /** Forgets all, also what the list has lost. */
  clear() {
    if (!this.works) return;
    const keys = Array.from({ length: this.#place.length }, (_, i) => this.#place.key(i));
    for (const key of keys) if (key === LIST || key.startsWith(ONE)) this.#place.removeItem(key);
  }
}
