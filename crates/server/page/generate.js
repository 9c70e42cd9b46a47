// One answer from the server, from the request to its end. Chat and comparison both use it.

import { chunks } from "./stream.js";
import { askForKey, key } from "./key.js";
import { Problem } from "./problems.js";

/** The request for `messages` with the settings of `choice`. */
export function request(messages, choice) {
  const { pair, mode, threshold, budget, router, onCloudError, maxTokens, system, form, tools } = choice;
  const tandem = { mode, trace: true };
  // The bar and the router are joint's alone.
  if (mode === "joint") {
    if (budget !== undefined) tandem.budget = budget;
    else if (threshold !== undefined) tandem.threshold = threshold;
    if (router) tandem.router = router;
  }
  if (mode !== "small" && onCloudError) tandem.on_cloud_error = onCloudError;
  return {
    model: `${pair ?? "tandem"}-${mode}`,
    messages: system ? [{ role: "system", content: system }, ...messages] : messages,
    stream: true,
    ...(maxTokens ? { max_tokens: maxTokens } : {}),
    ...(form ? { response_format: { type: form } } : {}),
    ...(tools ? { tools } : {}),
    tandem,
  };
}

/** Fills `answer`, calling `changed` whenever something came. Failures end up in the answer. */
export async function generate(answer, messages, { signal, changed }) {
  const body = request(messages, answer.choice);
  for (;;) {
    answer.begin(performance.now());
    try {
      for await (const batch of chunks("v1/chat/completions", body, signal)) {
        answer.take(batch, performance.now());
        changed();
      }
      answer.end("done");
    } catch (error) {
      if (signal.aborted) answer.end("stopped");
      else if (error.kind === "key" && (await askForKey(key() && error.message)) && !signal.aborted) continue;
      else if (error instanceof Problem) answer.end("failed", error);
      else {
        // A fault of this page: said in the answer and left visible to who looks for it.
        console.error(error);
        answer.end("failed", new Problem("stream", String(error)));
      }
    }
    changed();
    return;
  }
}
