// An answer's text, one span a token, tinted by who wrote it.

import { make, nextFrame } from "./dom.js";
import { openCard, closeCard, cardIsFor } from "./card.js";
import { blocks } from "./readable.js";

const NAMES = { edge: "device", cloud: "cloud", fallback: "fallback", plain: "text" };
const views = new WeakMap();

/** Shows the tokens of one answer. New ones are added once a frame, however many arrived. */
export class TokenView {
  #shown = 0;
  #spans = [];
  #at = -1;
  #before = null;

  constructor(answer, label) {
    this.answer = answer;
    this.element = make("div", {
      class: "tokens",
      dir: "auto",
      role: "group",
      tabindex: 0,
      "aria-label": label,
      "aria-describedby": "steps",
    });
    views.set(this.element, this);
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("blur", () => this.#leave());
  }

  /** Asks for the tokens that came since to be shown. */
  update = () => nextFrame(this.#add);

  #add = () => {
    const { tokens } = this.answer;
    if (this.#shown === tokens.length) return;
    const fresh = document.createDocumentFragment();
    for (; this.#shown < tokens.length; this.#shown += 1) {
      const token = tokens[this.#shown];
      // A part of a character has no text of its own and so nothing to point at.
      if (token.text === "") continue;
      const text = this.#space(token, fresh);
      const span = document.createElement("span");
      span.className = `token ${token.source}`;
      span.dataset.index = this.#shown;
      span.textContent = text;
      this.#spans.push(span);
      fresh.append(span);
      this.#before = token.source;
    }
    this.element.append(fresh);
  };

  /** Between the device's word and another's the space goes with the device's, so that an underline
   *  begins under its word. Gives what is left of the token's text. */
  #space(token, fresh) {
    if (this.#before !== "edge" || token.source === "edge") return token.text;
    const bare = token.text.trimStart();
    if (bare === "" || bare === token.text) return token.text;
    const space = document.createElement("span");
    space.className = "token edge";
    space.textContent = token.text.slice(0, token.text.length - bare.length);
    fresh.append(space);
    return bare;
  }

  /** Shows JSON and calls laid out to be read, or again as they were written. Gives whether there are any. */
  arrange(readable = true) {
    const laid = blocks(this.answer.tokens);
    if (laid === null) return false;
    closeCard();
    this.#spans = [];
    this.#at = -1;
    this.#before = null;
    this.#shown = readable ? this.answer.tokens.length : 0;
    this.element.replaceChildren(...(readable ? laid.map((block) => this.#block(block)) : []));
    if (!readable) this.#add();
    return true;
  }

  #block({ name, pieces }) {
    const spans = pieces.map(({ index, text }) => (index === null ? text : this.#piece(index, text)));
    if (name === null) return make("span", {}, spans);
    return make("details", { class: "block", open: true }, make("summary", {}, name), make("div", { class: "code" }, spans));
  }

  /** A part of a token; keys step to the first part. */
  #piece(index, text) {
    const span = make("span", { class: `token ${this.answer.tokens[index].source}`, "data-index": index }, text);
    if (this.#spans.at(-1)?.dataset.index !== span.dataset.index) this.#spans.push(span);
    return span;
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = this.#target(event.key);
    if (to === null) return;
    event.preventDefault();
    if (to === -1) return;
    this.#mark(to);
    openCard(this.#spans[to], this.answer, { by: "keys" });
  }

  /** Where a key leads: an index into the spans, -1 for nowhere, null for a key that is not ours. */
  #target(key) {
    const last = this.#spans.length - 1;
    const notable = (i) => !this.#spans[i].classList.contains("edge");
    switch (key) {
      case "ArrowRight":
        return Math.min(last, this.#at + 1);
      case "ArrowLeft":
        return Math.min(last, Math.max(0, this.#at - 1));
      case "ArrowDown":
        for (let i = this.#at + 1; i <= last; i += 1) if (notable(i)) return i;
        return -1;
      case "ArrowUp":
        for (let i = this.#at - 1; i >= 0; i -= 1) if (notable(i)) return i;
        return -1;
      case "Home":
        return Math.min(last, 0);
      case "End":
        return last;
      default:
        return null;
    }
  }

  #mark(at) {
    this.#spans[this.#at]?.classList.remove("current");
    this.#at = at;
    const span = this.#spans[at];
    const folded = span.closest("details:not([open])");
    if (folded) folded.open = true;
    span.classList.add("current");
    span.scrollIntoView({ block: "nearest" });
  }

  #leave() {
    this.#spans[this.#at]?.classList.remove("current");
    if (cardIsFor(this.answer, "keys")) closeCard();
  }
}

/** A button between JSON laid out and as it was written. */
export function layoutSwitch(view) {
  const name = (readable) => (readable ? "As written" : "Laid out");
  let readable = true;
  const button = make("button", { type: "button", class: "quiet small" }, name(readable));
  button.addEventListener("click", () => {
    readable = !readable;
    view.arrange(readable);
    button.textContent = name(readable);
  });
  return button;
}

/** How many tokens each source wrote, in the sources' own tints: the legend of an answer. */
export function tally(counts) {
  return Object.entries(counts)
    .filter(([, n]) => n > 0)
    .map(([source, n]) => make("span", { class: `token ${source} tally` }, `${n} ${NAMES[source]}`));
}

/** Opens cards for every token below `root`, by pointer and by tap. One listener for all. */
export function watchTokens(root) {
  const found = (event) => {
    const span = event.target.closest?.(".token[data-index]");
    const view = span && views.get(span.closest(".tokens"));
    return view ? { span, answer: view.answer } : null;
  };
  let seen = [];
  root.addEventListener("pointermove", (event) => {
    // Text that moves under a resting pointer is not pointed at.
    const at = [event.clientX, event.clientY];
    const moved = at[0] !== seen[0] || at[1] !== seen[1];
    seen = at;
    const hit = moved && event.pointerType !== "touch" && found(event);
    if (hit) openCard(hit.span, hit.answer, { by: "pointer" });
  });
  root.addEventListener("pointerout", (event) => {
    if (event.pointerType !== "touch" && found(event)) closeCard({ by: "pointer", soon: true });
  });
  root.addEventListener("click", (event) => {
    const hit = found(event);
    // Somebody who selects text does not want a card.
    if (hit && getSelection().isCollapsed) openCard(hit.span, hit.answer, { by: "tap" });
  });
}
