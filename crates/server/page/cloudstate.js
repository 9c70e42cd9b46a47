// Whether the large model can be asked: a first question that has to load it looks like one that hangs.

import { byId } from "./dom.js";
import { pairOf } from "./format.js";
import { get } from "./stream.js";
import { Problem } from "./problems.js";

const AGAIN_MS = 1500;
const WORDS = {
  not_loaded: "The large model is not loaded yet: the first question to it will take longer.",
  loading: "The large model is being loaded. Until then, questions to it wait.",
  unreachable: "The cloud could not be reached when it was last asked.",
};

/** Shows the state as the server tells it, and asks again while it is about to change. */
export class CloudState {
  #state = null;
  #running = false;
  #timer = 0;

  /** `pair` names the pair whose large model it is. */
  constructor(pair) {
    this.pair = pair;
  }

  /** What the server said just now. */
  show(state) {
    this.#state = state ?? null;
    const words = WORDS[this.#state] ?? "";
    const line = byId("cloud-state");
    if (line.textContent !== words) line.textContent = words;
    line.dataset.state = this.#state ?? "";
    clearTimeout(this.#timer);
    if (this.#state === "loading" || (this.#running && this.#state === "not_loaded")) this.#timer = setTimeout(this.#ask, AGAIN_MS);
  }

  /** An answer begins or has ended: the model may be loaded for it, and it may have met a cloud that is gone. */
  busy(on) {
    this.#running = on;
    if (on) this.show(this.#state);
    else this.#ask();
  }

  #ask = async () => {
    clearTimeout(this.#timer);
    try {
      const server = await get("v1/tandem");
      this.show(pairOf(server, this.pair()).cloud_state);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // The answers themselves say that the server is gone or wants a key; of the cloud nothing is known then.
      this.show(null);
    }
  };
}
