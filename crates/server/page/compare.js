// One prompt, several ways side by side: small, joint and large, or joint with two budgets.

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

const HEADS = {
  modes: ["One prompt, three ways", "Small, joint and large answer the same prompt, one after another, so that each has the machine to itself."],
  budgets: ["One prompt, two budgets", "Both columns are joint, one after another: what more of the cloud is worth, and what it costs."],
};

/** The columns as the settings stand: `{mode, name, words, budget}`. */
function ways(settings) {
  if (settings.ways === "modes") return MODES.map(([mode, name, words]) => ({ mode, name, words }));
  const names = ["First budget", "Second budget"];
  return settings.budgets.map((budget, i) => ({ mode: "joint", name: names[i], words: "the cloud where trust is low, about as often as this allows", budget }));
}

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
    this.blank();
  }

  /** Empty columns, for what is chosen to be compared; a comparison that runs stays. */
  blank() {
    if (this.#abort) return;
    this.#begin(HEADS[this.settings.ways][1]);
    this.root.replaceChildren(...ways(this.settings).map((way) => this.#section(way)));
  }

  /** The head of the view, with the prompt or with what there is to say before one. */
  #begin(...children) {
    byId("compare-title").textContent = HEADS[this.settings.ways][0];
    byId("compare-words").replaceChildren(...children);
    this.root.classList.toggle("pair", this.settings.ways === "budgets");
  }

  #section({ mode, name, words }, policy = "", ...children) {
    return make("section", { class: "lane", "data-mode": mode, "aria-label": name }, this.#head(name, words, policy), children);
  }

  #head(name, words, bar = "") {
    return make("header", {}, make("h3", {}, name, bar && make("span", { class: "muted" }, bar)), make("p", { class: "muted" }, words));
  }

  /** Runs them one after another: at once they would slow each other down. */
  async run(message) {
    const abort = new AbortController();
    this.#abort = abort;
    this.busy(true);
    const asked = make("span", { class: "asked", dir: "auto" }, [message.text, message.file?.name].filter(Boolean).join("\n"));
    this.#begin(asked);
    const lanes = ways(this.settings).map((way) => this.#lane(way));
    this.root.replaceChildren(...lanes.map((lane) => lane.element));
    this.scroller.scrollTop = 0;
    for (const lane of lanes) await this.#fill(lane, message, abort.signal);
    this.#abort = null;
    this.busy(false);
    const done = lanes.filter((lane) => lane.answer.state === "done");
    const results = done.map(({ answer, way }) => `${way.name}: ${duration(answer.total)}, ${percent(answer.share)} from the cloud`);
    if (results.length > 0) byId("said").append(make("p", {}, `Comparison finished. ${results.join(". ")}.`));
  }

  stop() {
    this.#abort?.abort();
  }

  #lane(way) {
    const answer = new Answer(this.settings.choice(way.mode, way.budget));
    const view = new TokenView(answer, `Answer of ${way.name.toLowerCase()}`);
    const foot = make("div", { class: "foot" }, make("span", { class: "muted" }, "waiting for its turn"));
    const lane = { answer, view, foot, way };
    lane.element = this.#section(way, policyName(answer.choice), view.element, foot);
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
    const fresh = this.#lane(lane.way);
    lane.element.replaceWith(fresh.element);
    await this.#fill(fresh, message, abort.signal);
    this.#abort = null;
    this.busy(false);
  }
}
