// What a screen reader hears of an answer: whole sentences, not each token.

const END = /[.!?…]["'”’)\]]*\s|[。！？]|\n/g;
const KEPT = 6;

/** Says an answer sentence by sentence in a live region. */
export class Speaker {
  #region;
  #rest = "";
  #taken = 0;

  constructor(region) {
    this.#region = region;
  }

  /** `text` is the whole answer so far. */
  hear(text) {
    this.#rest += text.slice(this.#taken);
    this.#taken = text.length;
    let end = 0;
    for (const match of this.#rest.matchAll(END)) end = match.index + match[0].length;
    if (end === 0) return;
    this.#say(this.#rest.slice(0, end));
    this.#rest = this.#rest.slice(end);
  }

  /** What is left of the text, then how it ended. */
  close(text, ending) {
    this.hear(text);
    this.#say(`${this.#rest} ${ending}`);
    this.#rest = "";
  }

  #say(words) {
    if (words.trim() === "") return;
    const line = document.createElement("p");
    line.textContent = words.trim();
    this.#region.append(line);
    while (this.#region.childElementCount > KEPT) this.#region.firstElementChild.remove();
  }
}
