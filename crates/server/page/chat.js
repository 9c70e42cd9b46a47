// The conversation: turns of a message and its answer.

import { make, byId, nextFrame } from "./dom.js";
import { Answer } from "./answer.js";
import { generate } from "./generate.js";
import { TokenView, tally } from "./tokens.js";
import { Speaker } from "./speech.js";
import { problemNotice, remarks } from "./notices.js";
import { copy } from "./copy.js";
import { policyName, bytes, count, duration, percent } from "./format.js";

const NEAR_PX = 80;

/** The answer's figures in a line. */
function line(answer) {
  const rate = answer.summary?.stats.tokens_per_second;
  return [
    answer.choice.mode === "joint" && `${percent(answer.share)} from the cloud`,
    answer.first !== null && `first after ${duration(answer.first)}`,
    rate > 0 && `${rate.toFixed(1)} tokens/s`,
    answer.sentBytes > 0 ? `${bytes(answer.sentBytes)} sent` : "nothing sent",
  ]
    .filter(Boolean)
    .join(" · ");
}

/** What a screen reader hears at the end. */
export function ending(answer) {
  if (answer.state === "failed") return "The answer broke off.";
  const how = answer.state === "stopped" ? "Stopped" : "End of the answer";
  return `${how}: ${count(answer.tokens.length, "token")}, ${percent(answer.share)} from the cloud.`;
}

export class Chat {
  #turns = [];
  #abort = null;
  #sticks = true;
  #top = 0;

  constructor({ settings, figures, busy, showFigures }) {
    Object.assign(this, { settings, figures, busy, showFigures });
    this.scroller = byId("chat");
    this.list = byId("turns");
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    byId("latest").addEventListener("click", () => {
      this.#sticks = true;
      this.#follow();
    });
  }

  /** Only somebody who scrolls up wants to stay there: words that arrive move the end away too. */
  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    const near = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    if (near || scrollTop < this.#top) this.#sticks = near;
    this.#top = scrollTop;
    byId("latest").hidden = this.#sticks || this.#turns.length === 0;
  }

  /** Sends `text` as the next message. */
  async send(text) {
    byId("welcome").hidden = true;
    const turn = { text };
    this.#turns.push(turn);
    turn.element = make("article", { class: "turn", "aria-label": `Turn ${this.#turns.length}` });
    turn.place = make("div", { class: "answer" });
    turn.element.append(make("h2", { class: "hidden" }, "You"), make("div", { class: "said", dir: "auto" }, text), turn.place);
    this.list.append(turn.element);
    await this.#answer(turn);
  }

  /** Ends the running answer; what it wrote stays. */
  stop() {
    this.#abort?.abort();
  }

  /** A new conversation. */
  clear() {
    this.stop();
    this.#turns = [];
    this.list.replaceChildren();
    byId("welcome").hidden = false;
    byId("latest").hidden = true;
    this.figures.clear();
  }

  /** Bytes, asks and answers of the whole conversation. */
  total() {
    const answers = this.#turns.map((turn) => turn.answer).filter(Boolean);
    const sum = (of) => answers.reduce((all, answer) => all + of(answer), 0);
    return { sent: sum((a) => a.sentBytes), asks: sum((a) => a.askCount), answers: answers.length };
  }

  /** The messages before `turn` and its own. A turn that got no answer is left out. */
  #messages(turn) {
    const before = this.#turns.slice(0, this.#turns.indexOf(turn)).filter((t) => t.answer?.text);
    return [
      ...before.flatMap((t) => [
        { role: "user", content: t.text },
        { role: "assistant", content: t.answer.text },
      ]),
      { role: "user", content: turn.text },
    ];
  }

  async #answer(turn) {
    const answer = new Answer(this.settings.choice());
    const number = this.#turns.indexOf(turn) + 1;
    const view = new TokenView(answer, `Answer ${number}`);
    const speaker = new Speaker(byId("said"));
    const { mode } = answer.choice;
    const foot = make("div", { class: "foot" }, make("span", { class: "thinking" }, "waiting for the first token"));
    turn.answer = answer;
    turn.place.replaceChildren(
      make("h2", { class: "who" }, "Tandem ", make("span", { class: "muted" }, [mode, policyName(answer.choice)].filter(Boolean).join(" · "))),
      view.element,
      foot,
    );
    for (const other of this.#turns) other.element.querySelector(".again")?.remove();
    this.figures.pick(answer, `Answer ${number}`);
    this.#sticks = true;
    this.#follow();

    const abort = new AbortController();
    this.#abort = abort;
    this.busy(true);
    const changed = () => {
      view.update();
      this.figures.update(answer);
      if (answer.state === "streaming") {
        if (foot.firstChild) foot.replaceChildren();
        speaker.hear(answer.text);
      }
      nextFrame(this.#follow);
    };
    await generate(answer, this.#messages(turn), { signal: abort.signal, changed });
    // A new chat may have begun meanwhile.
    if (this.#abort === abort) {
      this.#abort = null;
      this.busy(false);
    }
    if (!this.#turns.includes(turn)) return;
    speaker.close(answer.text, ending(answer));
    this.#finish(turn, foot);
    this.figures.update(answer);
    nextFrame(this.#follow);
  }

  #finish(turn, foot) {
    const { answer } = turn;
    const again = () => this.#again(turn);
    foot.replaceChildren();
    if (answer.tokens.length > 0) {
      const copying = make("button", { type: "button", class: "quiet small", onclick: () => copy(answer.text, copying) }, "Copy");
      foot.append(
        make("p", { class: "facts" }, ...tally(answer.counts), make("span", { class: "muted" }, line(answer))),
        make(
          "div",
          { class: "actions" },
          copying,
          make("button", { type: "button", class: "quiet small", onclick: () => this.#pick(turn) }, "Figures"),
          this.#turns.at(-1) === turn && answer.state !== "failed" && make("button", { type: "button", class: "quiet small again", onclick: again }, "Ask again"),
        ),
      );
    }
    foot.append(...remarks(answer).map((remark) => make("p", { class: "notice" }, remark)));
    if (answer.problem) {
      const left = answer.text ? "" : "Until then this message is not part of the conversation.";
      foot.append(problemNotice(answer.problem, again, left));
    } else if (answer.state === "stopped" && answer.tokens.length === 0) {
      foot.append(make("button", { type: "button", class: "quiet small again", onclick: again }, "Ask again"));
    }
  }

  /** The same message again, with the settings of now. */
  async #again(turn) {
    if (this.#abort) return;
    await this.#answer(turn);
  }

  #pick(turn) {
    this.figures.pick(turn.answer, `Answer ${this.#turns.indexOf(turn) + 1}`);
    this.showFigures();
  }

  #follow = () => {
    if (this.#sticks) this.scroller.scrollTop = this.scroller.scrollHeight;
  };
}
