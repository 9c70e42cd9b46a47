// One prompt, three ways: small, joint and large, side by side.

import { make, byId } from "./dom.js";
import { Answer } from "./answer.js";
import { generate } from "./generate.js";
import { TokenView, layoutSwitch, tally } from "./tokens.js";
import { SplitChart } from "./charts.js";
import { SentList } from "./figures.js";
import { problemNotice, remarks } from "./notices.js";
import { copy } from "./copy.js";
import { policyName, bytes, duration, percent } from "./format.js";
import { said } from "./message.js";

const MODES = [
  ["small", "Small", "the device alone"],
  ["joint", "Joint", "the cloud where trust is low"],
  ["large", "Large", "the cloud alone"],
];

/** The figures of one column, once it is finished. */
function facts(answer) {
  const stats = answer.summary?.stats ?? {};
  const rows = [
    ["from the cloud", percent(answer.share)],
    ["tokens", String(answer.tokens.length)],
    ["first token", answer.first === null ? "–" : duration(answer.first)],
    ["between tokens", answer.medianGap === null ? "–" : duration(answer.medianGap)],
    ["in all", duration(answer.total)],
    ["characters a second", stats.characters_per_second > 0 ? stats.characters_per_second.toFixed(0) : "–"],
    ["sent", bytes(answer.sentBytes)],
  ];
  return make("dl", { class: "pairs" }, rows.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

export class Compare {
  #abort = null;

  constructor({ settings, busy, place }) {
    Object.assign(this, { settings, busy, place });
    this.scroller = byId("compare");
    this.root = byId("columns");
    this.#blank();
  }

  #blank() {
    this.root.replaceChildren(
      ...MODES.map(([mode, name, words]) => make("section", { class: "lane", "data-mode": mode, "aria-label": name }, this.#head(name, words))),
    );
  }

  #head(name, words, bar = "") {
    return make("header", {}, make("h3", {}, name, bar && make("span", { class: "muted" }, bar)), make("p", { class: "muted" }, words));
  }

  /** Runs the three, one after another: at once they would slow each other down. */
  async run(message) {
    const abort = new AbortController();
    this.#abort = abort;
    this.busy(true);
    const asked = make("p", { class: "asked", dir: "auto" }, [message.text, message.file?.name].filter(Boolean).join("\n"));
    byId("compare-words").replaceWith(make("div", { id: "compare-words" }, asked));
    const lanes = MODES.map(([mode, name, words]) => this.#lane(mode, name, words));
    this.root.replaceChildren(...lanes.map((lane) => lane.element));
    this.scroller.scrollTop = 0;
    for (const lane of lanes) await this.#fill(lane, message, abort.signal);
    this.busy(false);
    this.#abort = null;
    const done = lanes.filter((lane) => lane.answer.state === "done");
    const results = done.map(({ answer, name }) => `${name}: ${duration(answer.total)}, ${percent(answer.share)} from the cloud`);
    if (results.length > 0) byId("said").append(make("p", {}, `Comparison finished. ${results.join(". ")}.`));
  }

  stop() {
    this.#abort?.abort();
  }

  #lane(mode, name, words) {
    const answer = new Answer(this.settings.choice(mode));
    const view = new TokenView(answer, `Answer of ${name.toLowerCase()}`);
    const foot = make("div", { class: "foot" }, make("span", { class: "muted" }, "waits for its turn"));
    const lane = { answer, view, foot, name };
    lane.element = make("section", { class: "lane", "data-mode": mode, "aria-label": name }, this.#head(name, words, policyName(answer.choice)), view.element, foot);
    return lane;
  }

  async #fill(lane, message, signal) {
    const { answer, view, foot } = lane;
    if (signal.aborted) {
      answer.end("stopped");
    } else {
      foot.replaceChildren(make("span", { class: "thinking" }, "waiting for the first token"));
      const changed = () => {
        view.update();
        if (answer.state === "streaming" && foot.firstChild) foot.replaceChildren();
      };
      await generate(answer, said(message), { signal, changed });
    }
    this.#finish(lane, message);
  }

  #finish(lane, message) {
    const { answer, view, foot } = lane;
    const readable = view.arrange();
    foot.replaceChildren();
    if (answer.tokens.length > 0) {
      const split = new SplitChart({ legend: true });
      const sent = new SentList();
      split.draw(answer);
      sent.draw(answer, this.place());
      const copying = make("button", { type: "button", class: "quiet small", onclick: () => copy(answer.text, copying) }, "Copy");
      foot.append(
        make("p", { class: "facts" }, ...tally(answer.counts), copying, readable && layoutSwitch(view)),
        facts(answer),
        split.element,
        make("details", {}, make("summary", {}, "What left this device"), sent.element),
      );
    }
    foot.append(...remarks(answer).map((remark) => make("p", { class: "notice" }, remark)));
    if (answer.problem) foot.append(problemNotice(answer.problem, () => this.#again(lane, message)));
  }

  /** One column once more. */
  async #again(lane, message) {
    if (this.#abort) return;
    const abort = new AbortController();
    this.#abort = abort;
    this.busy(true);
    const [mode, name, words] = MODES.find(([, name]) => name === lane.name);
    const fresh = this.#lane(mode, name, words);
    lane.element.replaceWith(fresh.element);
    await this.#fill(fresh, message, abort.signal);
    this.busy(false);
    this.#abort = null;
  }
}
