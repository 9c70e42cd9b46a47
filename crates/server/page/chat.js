// The conversation: turns of a message and its answer.

import { make, byId, nextFrame } from "./dom.js";
import { Answer } from "./answer.js";
import { generate } from "./generate.js";
import { TokenView, layoutSwitch, tally } from "./tokens.js";
import { Speaker } from "./speech.js";
import { problemNotice, remarks } from "./notices.js";
import { copy } from "./copy.js";
import { policyName, bytes, count, duration, percent } from "./format.js";
import { said, titleOf, written } from "./message.js";
import { pretty } from "./readable.js";

const NEAR_PX = 80;
const TITLE_LENGTH = 80;

/** Names a conversation in the browser's storage. Not a UUID: pages over plain HTTP cannot make one. */
const newId = () => `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;

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

/** What was said in a turn. */
function bubble({ text, file, results }) {
  const folded = (name, content) => make("details", { class: "attached" }, make("summary", {}, name), make("pre", { dir: "auto", role: "group", tabindex: 0, "aria-label": name }, content));
  const parts = (results ?? []).map((result) => folded(`Result of ${result.name}`, result.text));
  if (file) parts.push(folded(file.name, file.text));
  return make("div", { class: "said", dir: "auto" }, text || null, parts);
}

/** A call that is known without the tokens it was written in. */
function callBlock(call) {
  return make("details", { class: "block", open: true }, make("summary", {}, `Call of ${call.name}`), make("div", { class: "code" }, pretty(call.arguments)));
}

export class Chat {
  #turns = [];
  #id = newId();
  /** Why the conversation is not kept in the browser: see the store. Empty where it is. */
  unkept = "";
  #abort = null;
  #sticks = true;
  #top = 0;

  constructor({ settings, figures, store, busy, showFigures }) {
    Object.assign(this, { settings, figures, store, busy, showFigures });
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

  /** Sends the next message: `{text}`, with a `file` or the `results` of tools where it has them. */
  async send(message) {
    const turn = { ...message };
    this.#add(turn);
    await this.#answer(turn);
  }

  /** A turn's place in the conversation, with what was said. */
  #add(turn) {
    byId("welcome").hidden = true;
    this.#turns.push(turn);
    turn.element = make("article", { class: "turn", "aria-label": `Turn ${this.#turns.length}` });
    turn.place = make("div", { class: "answer" });
    turn.element.append(make("h2", { class: "hidden" }, "You"), bubble(turn), turn.place);
    this.list.append(turn.element);
  }

  /** Ends the running answer; what it wrote stays. */
  stop() {
    this.#abort?.abort();
  }

  /** A new conversation. */
  clear() {
    this.keepRunning();
    this.forget();
  }

  /** The same, where this one was deleted. */
  forget() {
    this.stop();
    this.#turns = [];
    this.#id = newId();
    this.unkept = "";
    this.list.replaceChildren();
    byId("welcome").hidden = false;
    byId("latest").hidden = true;
    this.figures.clear();
  }

  get id() {
    return this.#id;
  }

  get turns() {
    return this.#turns;
  }

  get title() {
    return this.#turns.length === 0 ? "" : titleOf(this.#turns[0]).slice(0, TITLE_LENGTH);
  }

  /** Keeps the conversation in the browser as it stands. */
  keep() {
    if (this.#turns.length === 0) return;
    const turns = this.#turns.map(({ text, file, results, answer }) => ({ text, file, results, answer: answer?.kept() }));
    this.unkept = this.store.save({ id: this.#id, title: this.title, turns });
  }

  /** Keeps what the running answer has so far. Where none runs all is kept already, and what another tab has
   *  deleted since is not to come back. */
  keepRunning() {
    if (this.#abort) this.keep();
  }

  /** Goes on with a conversation that was kept. Gives whether it could be read. */
  restore(id, kept) {
    let turns;
    try {
      turns = kept.map((turn) => ({ ...turn, answer: turn.answer && Answer.restored(turn.answer) }));
    } catch (error) {
      // Not what this page writes.
      if (!(error instanceof TypeError)) throw error;
      return false;
    }
    this.clear();
    this.#id = id;
    for (const turn of turns) {
      this.#add(turn);
      if (turn.answer) this.#show(turn);
    }
    for (const turn of turns) if (turn.answer) this.#finish(turn);
    const last = turns.at(-1);
    if (last?.answer) this.figures.pick(last.answer, `Answer ${turns.length}`);
    this.#sticks = true;
    nextFrame(this.#follow);
    return true;
  }

  /** Bytes, asks and answers of the whole conversation. */
  total() {
    const answers = this.#turns.map((turn) => turn.answer).filter(Boolean);
    const sum = (of) => answers.reduce((all, answer) => all + of(answer), 0);
    return { sent: sum((a) => a.sentBytes), asks: sum((a) => a.askCount), answers: answers.length };
  }

  /** The messages before `turn` and its own. A turn that got no answer is left out. */
  #messages(turn) {
    const before = this.#turns.slice(0, this.#turns.indexOf(turn)).filter((t) => t.answer && (t.answer.text || t.answer.calls.length > 0));
    return [...before.flatMap((t) => [...said(t), written(t.answer)]), ...said(turn)];
  }

  async #answer(turn) {
    const answer = new Answer(this.settings.choice());
    const speaker = new Speaker(byId("said"));
    turn.answer = answer;
    this.#show(turn);
    const { view, foot } = turn;
    foot.append(make("span", { class: "thinking" }, "waiting for the first token"));
    for (const other of this.#turns) for (const old of other.element.querySelectorAll(".again, .results")) old.remove();
    this.figures.pick(answer, `Answer ${this.#turns.indexOf(turn) + 1}`);
    this.keep();
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
    this.#finish(turn);
    this.keep();
    this.figures.update(answer);
    nextFrame(this.#follow);
  }

  /** The place of a turn's answer, with what there is of it. */
  #show(turn) {
    const { answer } = turn;
    turn.view = new TokenView(answer, `Answer ${this.#turns.indexOf(turn) + 1}`);
    turn.foot = make("div", { class: "foot" });
    const how = [answer.choice.pair, answer.choice.mode, policyName(answer.choice)].filter(Boolean).join(" · ");
    turn.place.replaceChildren(make("h2", { class: "who" }, "Tandem ", make("span", { class: "muted" }, how)), turn.view.element, turn.foot);
    turn.view.update();
  }

  #finish(turn) {
    const { answer, view, foot } = turn;
    const again = () => this.#again(turn);
    const last = this.#turns.at(-1) === turn;
    const readable = view.arrange();
    foot.replaceChildren(...(readable ? [] : answer.calls.map(callBlock)));
    if (answer.tokens.length > 0) {
      const copying = make("button", { type: "button", class: "quiet small", onclick: () => copy(answer.text, copying) }, "Copy");
      foot.append(
        make("p", { class: "facts" }, ...tally(answer.counts), make("span", { class: "muted" }, line(answer))),
        make(
          "div",
          { class: "actions" },
          copying,
          readable && layoutSwitch(view),
          make("button", { type: "button", class: "quiet small", onclick: () => this.#pick(turn) }, "Figures"),
          last && answer.state !== "failed" && make("button", { type: "button", class: "quiet small again", onclick: again }, "Ask again"),
        ),
      );
    }
    foot.append(...remarks(answer).map((remark) => make("p", { class: "notice" }, remark)));
    if (answer.problem) {
      const left = answer.text ? "" : "Until then this message is not part of the conversation.";
      foot.append(problemNotice(answer.problem, again, left));
    } else if (last && (answer.state === "failed" || (answer.state === "stopped" && answer.tokens.length === 0))) {
      foot.append(make("button", { type: "button", class: "quiet small again", onclick: again }, "Ask again"));
    }
    if (last && answer.calls.length > 0 && answer.state === "done") foot.append(this.#resultsForm(answer.calls));
  }

  /** Fields for what the tools returned, which is the next message. The page runs no tools itself. */
  #resultsForm(calls) {
    const fields = calls.map((call) => make("textarea", { rows: 2, required: true }));
    const send = (event) => {
      event.preventDefault();
      if (this.#abort) return;
      this.send({ text: "", results: calls.map(({ id, name }, i) => ({ id, name, text: fields[i].value })) });
    };
    return make(
      "form",
      { class: "results", "aria-label": "Results of the tools", onsubmit: send },
      calls.map((call, i) => make("label", {}, `Result of ${call.name}`, fields[i])),
      make("button", {}, calls.length === 1 ? "Send the result" : "Send the results"),
    );
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
