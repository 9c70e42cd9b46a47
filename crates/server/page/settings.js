// The settings of the next message: mode, threshold or budget, router and the rest.

import { byId, make } from "./dom.js";
import { score, setShare } from "./format.js";
import { shareOf, thresholdAt } from "./shares.js";

const FIRST_BUDGET = 0.1;
const FIRST_THRESHOLD = 0.2;
const TOOLS_WANTED = 'This must be a list in JSON, as in the API: [{"type": "function", "function": {"name": …}}]';

/** Reads the controls below the conversation. What it gives out is a copy: a running answer keeps its own. */
export class Settings {
  // Kept beside the slider, whose steps would round a server's finer threshold.
  #threshold = FIRST_THRESHOLD;
  #budget = FIRST_BUDGET;
  #router = "";
  // By the name of a router, its thresholds by share: the slider is linear in share whatever it sets.
  #tables = {};

  /** `changed` is called when another comparison is chosen, `pairChanged` when another pair is. */
  constructor({ changed, pairChanged }) {
    this.changed = changed;
    this.kind = byId("bar-kind");
    this.slider = byId("bar");
    this.modes = byId("mode");
    this.more = byId("more-settings");
    this.slider.addEventListener("input", () => {
      this.#keep(Number(this.slider.value));
      this.#show();
    });
    this.kind.addEventListener("change", () => this.#show());
    this.modes.addEventListener("change", () => this.#show());
    byId("router").addEventListener("change", () => this.#show());
    byId("pair-choice").addEventListener("change", () => pairChanged());
    byId("more").addEventListener("click", () => this.#toggle());
    byId("ways").addEventListener("change", () => {
      this.#show();
      this.changed();
    });
    for (const slider of this.#sliders()) slider.addEventListener("input", () => this.#budgetWords());
    byId("tools").addEventListener("input", () => this.#toolsWords(""));
    this.#budgetWords();
    this.#show();
  }

  #keep(value) {
    if (this.kind.value === "budget") this.#budget = value;
    else this.#threshold = thresholdAt(this.#table(), value);
  }

  /** Of the router that is chosen; undefined where it has none. */
  #table() {
    return this.#tables[byId("router").value || this.#router];
  }

  #toggle() {
    this.more.hidden = !this.more.hidden;
    byId("more").setAttribute("aria-expanded", String(!this.more.hidden));
  }

  /** Offers the server's pairs, if there are several; the first is its own, and chosen unless another was. */
  offer(pairs = []) {
    const { pair } = this;
    const names = pairs.map(({ name }) => name);
    byId("pair-choice").replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    if (names.includes(pair)) byId("pair-choice").value = pair;
    byId("pair-choice").parentElement.hidden = names.length < 2;
  }

  /** The name of the pair that is chosen; undefined for the server's own. */
  get pair() {
    const { value, selectedIndex } = byId("pair-choice");
    return selectedIndex > 0 ? value : undefined;
  }

  /** Takes over what a pair of the server is set to. */
  adopt(server) {
    const policy = server.policy ?? {};
    if (typeof policy.budget === "number") {
      this.kind.value = "budget";
      this.#budget = policy.budget;
    } else if (typeof policy.threshold === "number") {
      this.kind.value = "threshold";
      this.#threshold = policy.threshold;
    }
    this.#router = server.router?.name ?? "";
    this.#tables = server.tables ?? {};
    const names = [...new Set([this.#router, ...(server.routers ?? [])])].filter(Boolean);
    byId("router").replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    const limit = byId("max-tokens");
    if (server.limits?.max_tokens) limit.placeholder = String(server.limits.max_tokens);
    if (server.limits?.context) limit.max = server.limits.context;
    this.#offerModes(server.cloud?.place !== "none");
    this.#show();
  }

  /** Without a cloud the small model is all there is. */
  #offerModes(cloud) {
    for (const input of this.modes.querySelectorAll("input")) {
      input.disabled = !cloud && input.value !== "small";
      if (!cloud) input.checked = input.value === "small";
    }
    byId("ways").querySelector("[value=budgets]").disabled = !cloud;
    this.modes.title = cloud ? "" : "This server runs without a cloud.";
  }

  get mode() {
    return this.modes.querySelector("input:checked").value;
  }

  /** What is compared: "modes" or "budgets". */
  get ways() {
    return byId("ways").querySelector("input:checked").value;
  }

  /** The two budgets to compare. */
  get budgets() {
    return this.#sliders().map((slider) => Number(slider.value));
  }

  #sliders() {
    return [byId("budget-first"), byId("budget-second")];
  }

  #budgetWords() {
    for (const slider of this.#sliders()) {
      const words = setShare(Number(slider.value));
      slider.setAttribute("aria-valuetext", words);
      byId(`${slider.id}-value`).textContent = words;
    }
  }

  /** In a comparison of modes all three run, so the policy always counts. */
  compare(on) {
    this.modes.hidden = on;
    byId("ways").hidden = !on;
    this.comparing = on;
    this.#show();
  }

  /** The settings as they stand, for `mode` or the chosen one, with a budget in place of the slider's. */
  choice(mode = this.mode, budget = null) {
    const own = this.kind.value === "budget" ? { budget: this.#budget } : { threshold: this.#threshold };
    const policy = budget === null ? own : { budget };
    const router = byId("router").value;
    return {
      pair: this.pair,
      mode,
      ...(mode === "joint" ? policy : {}),
      router: router && router !== this.#router ? router : undefined,
      onCloudError: byId("on-cloud-error").value || undefined,
      maxTokens: this.#maxTokens(),
      system: byId("system").value.trim() || undefined,
      form: byId("form").value || undefined,
      tools: this.#tools() ?? undefined,
    };
  }

  /** The tools that are offered; undefined for none, null where they cannot be read. */
  #tools() {
    const text = byId("tools").value.trim();
    if (text === "") return undefined;
    try {
      const tools = JSON.parse(text);
      return Array.isArray(tools) ? tools : null;
    } catch {
      return null;
    }
  }

  #toolsWords(words) {
    byId("tools-words").textContent = words;
    byId("tools").setAttribute("aria-invalid", String(words !== ""));
  }

  /** Whether the next message can go out. If not, what is wrong is said where it is set. */
  check() {
    if (this.#tools() !== null) return true;
    if (this.more.hidden) this.#toggle();
    this.#toolsWords(TOOLS_WANTED);
    byId("tools").focus();
    return false;
  }

  /** A whole number within the server's context; undefined when none is set. */
  #maxTokens() {
    const field = byId("max-tokens");
    const wanted = Math.floor(field.valueAsNumber);
    return wanted > 0 ? Math.min(wanted, Number(field.max) || wanted) : undefined;
  }

  #show() {
    const budget = this.kind.value === "budget";
    const value = budget ? this.#budget : this.#threshold;
    const used = this.comparing || this.mode === "joint";
    const pair = Boolean(this.comparing) && this.ways === "budgets";
    byId("bar-kind").parentElement.hidden = pair;
    byId("budgets").hidden = !pair;
    const words = budget ? setShare(value) : score(value);
    this.slider.value = budget ? value : shareOf(this.#table(), value);
    this.slider.disabled = !used;
    this.kind.disabled = !used;
    this.slider.setAttribute("aria-label", budget ? "Budget" : "Threshold");
    this.slider.setAttribute("aria-valuetext", words);
    byId("bar-value").textContent = words;
    byId("bar-words").textContent = this.#words(budget, words);
  }

  #words(budget, value) {
    if (this.comparing && this.ways === "budgets") return "Next run: the same prompt with each of the two budgets.";
    if (!this.comparing && this.mode === "small") return "Next message: the device writes alone. Nothing leaves it.";
    if (!this.comparing && this.mode === "large") return "Next message: the cloud writes everything and reads the whole conversation.";
    const next = this.comparing ? "Joint, next run" : "Next message";
    return budget ? `${next}: about ${value} of the tokens from the cloud.` : `${next}: the cloud is asked where trust is below ${value}.`;
  }
}
