// What the page says when something went wrong, or differs from what was asked for.

import { make } from "./dom.js";
import { words } from "./problems.js";
import { count } from "./format.js";

/** A problem in words, with a button that tries again and counts down to the server's own time. */
export function problemNotice(problem, retry, extra = "") {
  const { title, advice } = words(problem);
  const button = make("button", { type: "button", onclick: () => retry() }, "Try again");
  const notice = make(
    "div",
    { class: "notice problem", role: "alert" },
    make("p", {}, make("strong", {}, title), " ", advice, extra ? ` ${extra}` : ""),
    button,
  );
  if (problem.kind === "busy" && problem.retryAfter) countDown(button, problem.retryAfter);
  return notice;
}

function countDown(button, seconds) {
  const until = performance.now() + seconds * 1000;
  const tick = () => {
    const left = Math.ceil((until - performance.now()) / 1000);
    button.textContent = left > 0 ? `Try again (in ${left} s)` : "Try again";
    if (left > 0 && (button.isConnected || left === seconds)) setTimeout(tick, 250);
  };
  tick();
}

/** What a finished answer has to add: a cloud that failed, an end before its time. */
export function remarks(answer) {
  const said = [];
  const error = answer.summary?.cloud_error;
  if (error) {
    const kept = answer.counts.fallback;
    said.push(`The cloud could not be reached: ${error.replace(/\.$/, "")}. ${kept > 0 ? `The device wrote ${count(kept, "token")} instead.` : ""}`.trim());
  }
  if (answer.state === "stopped") said.push(answer.tokens.length > 0 ? "Stopped. The text so far is kept." : "Stopped before the first token.");
  else if (answer.finish === "length") said.push("Cut off at the longest answer allowed. Under More you can allow a longer one.");
  else if (answer.state === "failed" && !answer.problem) said.push("The answer broke off.");
  else if (answer.state === "done" && answer.text === "" && answer.calls.length === 0) said.push("The answer is empty.");
  return said;
}
