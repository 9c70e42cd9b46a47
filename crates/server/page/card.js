// The card of one token: who wrote it, why, what else could have stood there, what it cost.

import { make, draw, byId } from "./dom.js";
import { PARTS } from "./answer.js";
import { duration, percent, score, policyName, visible, bytes, count } from "./format.js";

const TITLES = {
  edge: "From this device",
  cloud: "From the cloud",
  fallback: "Fallback: from this device",
  plain: "Source unknown",
};
const SENT_SHOWN = 280;
const GRACE_MS = 160;
const HOVER_MS = 60;

let open = null;
let timer = 0;

const FORMS = {
  forced: "The form of the answer leaves no other choice here, so no model was asked.",
  replaced: "What the cloud wrote does not fit the form of the answer, so the device's best choice that fits was taken.",
  closed: "The answer had to end here, so what was open is closed.",
};

/** Why this token is there, in one sentence. */
export function reason(token, answer) {
  const { mode } = answer.choice;
  const choice = answer.summary ?? answer.choice;
  const trust = typeof token.score === "number" ? score(token.score) : null;
  if (FORMS[token.constrained]) return FORMS[token.constrained];
  if (token.source === "plain") return "The server sent this text without a trace.";
  if (token.source === "fallback") return "The cloud should have been asked here but could not be reached, so the device's own token was kept.";
  if (mode === "large") return "In large mode the cloud writes everything.";
  if (mode === "small") return "In small mode the cloud is never asked.";
  if (trust === null) return token.source === "cloud" ? "The cloud was asked for this word." : "The device's token was kept.";
  const has = typeof choice.threshold === "number";
  if (token.source === "cloud") {
    return has
      ? `Trust ${trust} is below the threshold ${score(choice.threshold)}, so the cloud was asked.`
      : `Trust ${trust} was too low for the ${policyName(choice)}, so the cloud was asked.`;
  }
  if (token.eligible === false) return `Trust ${trust}. The cloud cannot be asked inside a word.`;
  return has
    ? `Trust ${trust} is not below the threshold ${score(choice.threshold)}, so the device's token was kept.`
    : `Trust ${trust} was high enough for the ${policyName(choice)}, so the device's token was kept.`;
}

/** A bar from 0 to 1, with a mark at `at` where there is one. */
function scale(value, { at = null, kind = "" } = {}) {
  return draw(
    "svg",
    { class: `scale ${kind}`, viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect", { class: "rail", width: 100, height: 8 }),
    draw("rect", { class: "fill", width: Math.max(0, Math.min(1, value)) * 100, height: 8 }),
    at === null ? null : draw("rect", { class: "mark", x: Math.min(98.5, at * 100), width: 1.5, height: 8 }),
  );
}

function alternatives(token) {
  const list = token.alternatives ?? [];
  if (list.length === 0) return null;
  return make(
    "section",
    {},
    make("h3", {}, "The device's own guesses"),
    make(
      "ol",
      { class: "guesses" },
      list.map((guess) =>
        make(
          "li",
          {},
          make("code", {}, visible(guess.text)),
          scale(guess.probability, { kind: guess.text === token.text ? "same" : "" }),
          make("span", { class: "number" }, percent(guess.probability)),
        ),
      ),
    ),
  );
}

function times(head, shared) {
  const spent = PARTS.filter(([part]) => (head.times?.[part] ?? 0) > 0);
  if (spent.length === 0) return null;
  const all = spent.reduce((sum, [part]) => sum + head.times[part], 0);
  return make(
    "section",
    {},
    make("h3", {}, `${shared ? "Time of the whole ask" : "Time"}: ${duration(all)}`),
    make(
      "dl",
      { class: "pairs two" },
      spent.map(([part, name]) => [make("dt", {}, name), make("dd", {}, duration(head.times[part]))]),
    ),
  );
}

function sent(head) {
  if (typeof head.sent !== "string" && !head.cloud) return null;
  const use = head.cloud ?? {};
  const facts = [
    Number.isInteger(use.prefilled) && `${count(use.prefilled, "token")} read`,
    Number.isInteger(use.cached) && `${use.cached} found in its cache`,
    Number.isInteger(use.decoded) && `${use.decoded} written`,
  ].filter(Boolean);
  const text = head.sent;
  const parts = [make("h3", {}, "Sent for it")];
  if (typeof text === "string") {
    const long = text.length > SENT_SHOWN;
    parts.push(make("pre", { dir: "auto" }, text === "" ? "(nothing new)" : long ? `…${text.slice(-SENT_SHOWN)}` : text));
    parts.push(
      make("p", { class: "muted" }, `${bytes(new TextEncoder().encode(text).length)}${long ? "; all of it is in the figures, under What left this device" : ""}`),
    );
  }
  if (facts.length > 0) parts.push(make("p", { class: "muted" }, `In the cloud: ${facts.join(", ")}.`));
  return make("section", {}, parts);
}

function contents(token, answer, index) {
  const headIndex = answer.headOf(index);
  const head = answer.tokens[headIndex];
  const choice = answer.summary ?? answer.choice;
  const scored = typeof token.score === "number";
  return [
    make(
      "header",
      {},
      make("span", { class: `token ${token.source} sample` }, visible(token.text)),
      make("strong", {}, TITLES[token.source]),
      make("button", { type: "button", class: "quiet icon close", "aria-label": "Close", onclick: () => closeCard() }, "×"),
    ),
    make("p", {}, reason(token, answer)),
    scored
      ? make(
          "div",
          { class: "trust" },
          make("span", {}, "Score"),
          scale(token.score, { at: typeof choice.threshold === "number" ? choice.threshold : null, kind: token.source }),
          make("span", { class: "number" }, score(token.score)),
        )
      : null,
    alternatives(token),
    token.source === "cloud" ? sent(head) : null,
    times(head, headIndex !== index),
  ];
}

/** What a screen reader hears of the card. */
function spoken(token, answer) {
  const guesses = (token.alternatives ?? []).slice(0, 3).map((g) => `${g.text.trim() || visible(g.text)} ${percent(g.probability, 0)}`);
  return [
    `${token.text.trim() || visible(token.text)}: ${TITLES[token.source]}.`,
    reason(token, answer),
    guesses.length > 0 ? `The device's guesses: ${guesses.join(", ")}.` : "",
  ].join(" ");
}

/** Below the token or above it, wherever it fits or else has more room, and never over it. */
function place(card, span) {
  // The first line box: a token can wrap.
  const box = span.getClientRects()[0] ?? span.getBoundingClientRect();
  const below = innerHeight - box.bottom - 14;
  const above = box.top - 14;
  card.style.maxHeight = "";
  const { offsetWidth: width, offsetHeight: height } = card;
  const under = height <= below || below >= above;
  const high = Math.min(height, under ? below : above);
  card.style.maxHeight = `${high}px`;
  card.style.left = `${Math.max(8, Math.min(box.left - 16, innerWidth - width - 8))}px`;
  card.style.top = `${under ? box.bottom + 6 : box.top - 6 - high}px`;
}

function show(span, answer, by) {
  const card = byId("card");
  open?.span.classList.remove("open");
  const index = Number(span.dataset.index);
  const token = answer.tokens[index];
  card.replaceChildren(...contents(token, answer, index).filter(Boolean));
  card.classList.toggle("pinned", by === "tap");
  card.hidden = false;
  card.scrollTop = 0;
  place(card, span);
  span.classList.add("open");
  open = { span, answer, by };
  if (by !== "pointer") byId("hint").textContent = spoken(token, answer);
}

/** Opens the card of `span`. A pointer that only passes opens nothing, and moves no pinned card. */
export function openCard(span, answer, { by }) {
  clearTimeout(timer);
  if (by !== "pointer") return show(span, answer, by);
  if (open && (open.by !== "pointer" || open.span === span)) return;
  timer = setTimeout(() => show(span, answer, by), HOVER_MS);
}

/** Whether the open card is one of `answer`, opened in this way. */
export const cardIsFor = (answer, by) => open?.answer === answer && open.by === by;

/** Closes the card; `by` closes only one opened that way. Returns whether one was open. */
export function closeCard({ by = null, soon = false } = {}) {
  clearTimeout(timer);
  if (!open || (by && open.by !== by)) return false;
  if (soon) {
    // Time to move the pointer onto the card.
    timer = setTimeout(() => closeCard({ by }), GRACE_MS);
    return true;
  }
  open.span.classList.remove("open");
  open = null;
  byId("card").hidden = true;
  return true;
}

/** Keeps the card open under the pointer; closes it by a press elsewhere or by scrolling. */
export function watchCard() {
  const card = byId("card");
  card.addEventListener("pointerenter", () => clearTimeout(timer));
  card.addEventListener("pointerleave", () => closeCard({ by: "pointer", soon: true }));
  document.addEventListener("pointerdown", (event) => {
    if (!card.contains(event.target) && !event.target.closest?.(".token[data-index]")) closeCard();
  });
  addEventListener("resize", () => closeCard());
  // New words move the text while an answer streams: a card that was asked for goes with its token.
  document.addEventListener(
    "scroll",
    (event) => {
      if (!open || card.contains(event.target) || closeCard({ by: "pointer" })) return;
      const box = open.span.getBoundingClientRect();
      if (box.bottom < 0 || box.top > innerHeight) closeCard();
      else place(card, open.span);
    },
    { capture: true, passive: true },
  );
}
