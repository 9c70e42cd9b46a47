// The panel beside the chat: the figures of one answer, live, and what left this device for it.

import { make, nextFrame } from "./dom.js";
import { ShareChart, GapChart, SplitChart } from "./charts.js";
import { tally } from "./tokens.js";
import { policyName, bytes, count, duration, percent, visible } from "./format.js";

const REDRAW_MS = 90;
const WAITING = "The first answer brings figures: how much came from the cloud, how long the tokens took, where the time went, and what left this device.";

/** What went to the cloud for `answer`: how much, whereto, and the text itself. */
export class SentList {
  #shown = 0;
  #answer = null;

  constructor() {
    this.words = make("p", { class: "sent-words" });
    this.list = make("ol", { class: "asks" });
    this.whole = make("p", { class: "muted" });
    this.element = make("section", { class: "sent" }, make("h3", {}, "What left this device"), this.words, this.list, this.whole);
  }

  draw(answer, place) {
    if (this.#answer !== answer) {
      this.#answer = answer;
      this.#shown = 0;
      this.list.replaceChildren();
    }
    const { askCount, sentBytes } = answer;
    if (askCount === 0 && sentBytes === 0) this.words.textContent = answer.running ? "Nothing so far." : "Nothing.";
    else if (place === "embedded") {
      this.words.textContent = `Nothing: the large model runs inside this program. It was given the text below in ${count(askCount, "ask")}.`;
    } else {
      // The server counts what carries the text as well.
      const text = answer.asks.reduce((sum, ask) => sum + ask.bytes, 0);
      const part = text > 0 && text < sentBytes ? `, ${bytes(text)} of it the text below` : "";
      this.words.textContent = `${bytes(sentBytes)} in ${count(askCount, "ask")}${part}.`;
    }
    for (; this.#shown < answer.asks.length; this.#shown += 1) {
      const ask = answer.asks[this.#shown];
      const word = answer.tokens[ask.index].text;
      this.list.append(
        make(
          "li",
          {},
          make("p", {}, "For ", make("code", {}, visible(word)), `, token ${ask.index + 1}: ${bytes(ask.bytes)}`),
          make("pre", { dir: "auto", role: "group", tabindex: 0, "aria-label": `Text sent for token ${ask.index + 1}` }, ask.text === "" ? "(nothing new)" : ask.text),
        ),
      );
    }
  }
}

/** The panel. It shows the latest answer, or the one that was picked. */
export class Figures {
  #answer = null;
  #last = 0;
  #timer = 0;
  #share = new ShareChart();
  #gaps = new GapChart();
  #split = new SplitChart();
  #sent = new SentList();

  constructor(root, { place, total }) {
    this.place = place;
    this.total = total;
    this.of = make("p", { class: "muted" }, WAITING);
    this.tiles = make("dl", { class: "tiles" });
    this.legend = make("p", { class: "legend" });
    this.body = make("div", { class: "stack", hidden: true }, this.tiles, this.legend, this.#share.element, this.#gaps.element, this.#split.element, this.#sent.element);
    root.append(make("div", { class: "figures-head" }, make("h2", {}, "Figures"), this.of), this.body);
  }

  /** Shows `answer`, called `name`. */
  pick(answer, name) {
    this.#answer = answer;
    this.name = name;
    this.#last = 0;
    this.update(answer);
  }

  /** Back to the beginning. */
  clear() {
    this.#answer = null;
    this.body.hidden = true;
    this.of.textContent = WAITING;
  }

  get answer() {
    return this.#answer;
  }

  /** Asks for `answer` to be drawn again, if it is the one shown: some ten times a second. */
  update(answer) {
    if (answer !== this.#answer) return;
    clearTimeout(this.#timer);
    const wait = answer.running ? REDRAW_MS - (performance.now() - this.#last) : 0;
    if (wait > 0) this.#timer = setTimeout(() => nextFrame(this.#draw), wait);
    else nextFrame(this.#draw);
  }

  #draw = () => {
    const answer = this.#answer;
    if (!answer) return;
    this.#last = performance.now();
    this.of.textContent = [this.name, answer.choice.mode, answer.choice.mode === "joint" && policyName(answer.choice)].filter(Boolean).join(" · ");
    this.body.hidden = answer.tokens.length === 0;
    if (answer.tokens.length === 0) return;
    const rate = answer.summary?.stats.tokens_per_second ?? (answer.total > 0 ? (answer.tokens.length / answer.total) * 1000 : 0);
    const tile = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
    this.tiles.replaceChildren(
      tile("from the cloud", percent(answer.share)),
      tile("between tokens", answer.medianGap === null ? "–" : duration(answer.medianGap)),
      tile("tokens a second", rate.toFixed(1)),
    );
    this.legend.replaceChildren(...tally(answer.counts));
    this.#share.draw(answer);
    this.#gaps.draw(answer);
    this.#split.draw(answer);
    this.#sent.draw(answer, this.place());
    const { sent, asks, answers } = this.total();
    this.#sent.whole.textContent = answers > 1 ? `In this chat so far: ${bytes(sent)} in ${count(asks, "ask")}.` : "";
  };
}
