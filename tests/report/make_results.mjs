// Writes made-up results of sweeps, in the form of `tandem eval`, for looking at reports:
//   node make_results.mjs FOLDER
// choice.jsonl: five routers at six budgets on 120 questions; text.jsonl: open-ended, two routers,
// three delays; hostile.jsonl: names and texts that try to become markup; one.jsonl: one question;
// none.jsonl: begun, nothing answered. The same numbers every time.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const folder = process.argv[2];
if (!folder) {
  console.error("usage: node make_results.mjs FOLDER");
  process.exit(2);
}
mkdirSync(folder, { recursive: true });

/** Numbers in 0..1 that are the same every time. */
function lot(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = Math.imul(state ^ (state >>> 15), state | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 4294967296;
  };
}

const SUBJECTS = [
  ["Where would you keep milk so that it stays fresh", "fridge", "oven", "milk stays fresh where it is cold"],
  ["What do people use to see in the dark", "torch", "pillow", "a light helps people to see at night"],
  ["Where do most fish live", "water", "desert", "fish breathe with gills"],
  ["What falls from the sky in winter", "snow", "sand", "in winter the air is cold and water freezes"],
  ["What do you need to unlock a door", "key", "spoon", "a lock opens with the thing that fits it"],
  ["Who flies an aeroplane", "pilot", "baker", "an aeroplane is steered from the cockpit"],
  ["Where can you borrow books", "library", "garage", "books are lent where many of them are kept"],
  ["What does a clock show", "time", "weight", "the hands of a clock move round once in twelve hours"],
];
const LABELS = ["A", "B"];

const split = (text) => text.match(/\s*\S+/g) ?? [];
const round = (value) => Math.round(value * 1000) / 1000;

/** One answer's pieces and figures, by how many tokens may come from the cloud. */
function answer({ text, share, mode, delay, score, draw }) {
  const words = split(text);
  const byTrust = words.map((_, at) => [score(at), at]).sort((a, b) => a[0] - b[0]);
  const count = mode === "large" ? words.length : Math.round(share * words.length + draw() - 0.5);
  const asked = new Set(byTrust.slice(0, Math.max(0, count)).map(([, at]) => at));
  const pieces = words.map((word, at) => ({
    text: word,
    source: mode === "large" || asked.has(at) ? "cloud" : "edge",
    score: mode === "large" ? null : round(score(at)),
  }));
  const cloud = pieces.filter((piece) => piece.source === "cloud").length;
  const asks = mode === "large" ? 1 : cloud;
  const times = {
    edge_prefill_ms: mode === "large" ? 0 : 45,
    edge_decode_ms: mode === "large" ? 0 : 8.4 * (words.length - cloud),
    edge_reprefill_ms: mode === "joint" ? 3.1 * cloud : 0,
    router_ms: mode === "joint" ? 0.05 * words.length : 0,
    network_ms: asks * ((delay ?? 0) + 0.6),
    cloud_queue_ms: 0,
    cloud_prefill_ms: mode === "small" ? 0 : 190 + 24 * (asks - 1),
    cloud_decode_ms: cloud * 58,
  };
  if (mode === "small" || (mode === "joint" && asks === 0)) times.cloud_prefill_ms = 0;
  const total = Object.values(times).reduce((sum, part) => sum + part, 0);
  const figures = {
    tokens: words.length,
    cloud_tokens: cloud,
    fallback_tokens: 0,
    characters: text.length,
    asks,
    cloud_prefilled: mode === "small" ? 0 : 60 + 4 * asks,
    cloud_cached: 0,
    cloud_decoded: cloud,
    edge_bytes: mode === "large" ? 0 : 98_000_000 * words.length,
    cloud_bytes: 1_117_000_000 * cloud,
    first_token_ms: round(mode === "large" ? 210 : 50),
    total_ms: round(total),
    between_ms: pieces.slice(1).map((piece) => (piece.source === "cloud" ? 62 + (delay ?? 0) : 8.5)),
    split: times,
  };
  return { pieces, figures };
}

const point = (name, mode, more = {}) => ({
  name, mode, router: null, router_digest: null, budget: null, threshold: null, like: null,
  rtt_ms: null, ...more,
});

const about = (task, more = {}) => ({
  version: 1, task, data: `${task}/dev.jsonl sha256 4be1c0a2`,
  edge: "smollm2-135m-instruct 3f786850", cloud: "qwen2.5-coder-1.5b-instruct cc324af0",
  system: "You are a helpful assistant.", max_tokens: 160, seed: 1, ...more,
});

function write(name, head, points, questions, outcomes) {
  const lines = [
    { about: head },
    ...points.map((p) => ({ point: p })),
    ...questions.map((q) => ({ question: q })),
    ...outcomes.map((o) => ({ outcome: o })),
  ];
  writeFileSync(join(folder, name), lines.map((line) => JSON.stringify(line) + "\n").join(""));
}

/** How much of the large model's lead a router makes of a share of its tokens. */
const WORTH = { commonsenseqa: 0.9, margin: 0.5, top1: 0.45, entropy: 0.4, random: 0.16 };

function choice(name, { count, budgets, routers, bad = "", head = {} }) {
  const points = [
    point("small", "small"),
    ...routers.flatMap((router) => budgets.map((budget) =>
      point(`${router}${bad} ${round(budget * 100)}%`, "joint", {
        router: router + bad, budget, router_digest: router === "commonsenseqa" ? "9d1e" : null,
      }))),
    point("large", "large"),
  ];
  const [questions, outcomes] = [[], []];
  for (let number = 0; number < count; number++) {
    const draw = lot(number + 1);
    const [asked, right, wrong, because] = SUBJECTS[number % SUBJECTS.length];
    const first = draw() < 0.5;
    const texts = first ? [right, wrong] : [wrong, right];
    const key = first ? "A" : "B";
    const hard = draw();
    const luck = draw();
    questions.push({
      id: `dev-${String(number + 1).padStart(4, "0")}`,
      prompt: `Question: ${asked}?${bad}\nChoices:\n(a) ${texts[0]}\n(b) ${texts[1]}\nPlease format your response in the following way: [Explanation]. Therefore, the answer is answer (label).`,
      right: key,
      trust: Object.fromEntries(routers.map((r) => [r + bad, round(1 - 0.4 * hard - 0.3 * draw())])),
    });
    for (const p of points) {
      const router = p.router?.slice(0, p.router.length - bad.length);
      const share = p.mode === "small" ? 0 : p.mode === "large" ? 1 : p.budget;
      const skill = p.mode === "large" ? 0.36 : p.mode === "small" ? 0
        : 0.36 * WORTH[router] * (1 - Math.exp(-share * 14));
      const isRight = hard + 0.12 * (lot(number * 97 + p.name.length * 7)() - 0.5) + 0.1 * (luck - 0.5) < 0.46 + skill;
      const said = isRight ? key : LABELS[1 - LABELS.indexOf(key)];
      const word = texts[LABELS.indexOf(said)];
      const text = `People know that ${because}, so the other choice makes little sense here.${bad} Therefore, the answer is ${word} (${said.toLowerCase()}).`;
      const noise = lot(number * 31 + (router?.length ?? 0));
      const trust = split(text).map(() => Math.min(0.999, Math.max(0.02, 1.05 - 0.55 * hard * noise() - 0.35 * noise() ** 3)));
      const made = answer({ text, share, mode: p.mode, delay: p.rtt_ms, score: (at) => trust[at], draw });
      if (bad && p.mode === "joint") made.pieces[1].source = `cloud" onmouseover="alert(1)`;
      outcomes.push({
        id: questions.at(-1).id, point: p.name, right: isRight, said, finish: "stop", ...made,
        likelihood: null, spent: null,
      });
    }
  }
  write(name, about(head.task ?? "commonsenseqa", head), points, questions, outcomes);
}

function text(name) {
  const points = [point("small", "small")];
  for (const rtt_ms of [0, 50, 170]) {
    for (const router of ["top1", "random"]) {
      for (const budget of [0.05, 0.1, 0.3]) {
        points.push(point(`${router} ${round(budget * 100)}% ${rtt_ms}ms`, "joint", { router, budget, rtt_ms }));
      }
    }
    points.push(point(`large ${rtt_ms}ms`, "large", { rtt_ms }));
  }
  const [questions, outcomes] = [[], []];
  for (let number = 0; number < 40; number++) {
    const draw = lot(number + 500);
    const [asked, , , because] = SUBJECTS[number % SUBJECTS.length];
    questions.push({ id: `text:${number + 1}`, prompt: `Write a few sentences. ${asked}, and why?`, right: null, trust: {} });
    for (const p of points) {
      const share = p.mode === "small" ? 0 : p.mode === "large" ? 1 : p.budget;
      const written = `It is well known that ${because}. ${"Some say it in other words, and they are right. ".repeat(1 + (number % 3))}\n\nThat is why.`;
      const noise = lot(number * 13 + p.name.length);
      const trust = split(written).map(() => 0.3 + 0.69 * noise());
      const gain = p.mode === "large" ? 0.4 : share * (p.router === "top1" ? 0.9 : 0.35);
      outcomes.push({
        id: questions.at(-1).id, point: p.name, right: null, said: null, finish: number % 7 ? "stop" : "length",
        ...answer({ text: written, share, mode: p.mode, delay: p.rtt_ms, score: (at) => trust[at], draw }),
        likelihood: round(-0.95 + gain + 0.25 * (draw() - 0.5)), spent: null,
      });
    }
  }
  write(name, about("text"), points, questions, outcomes);
}

const budgets = [0.02, 0.05, 0.07, 0.1, 0.15, 0.3];
const routers = ["commonsenseqa", "top1", "entropy", "margin", "random"];
choice("choice.jsonl", { count: 120, budgets, routers });
text("text.jsonl");
choice("hostile.jsonl", {
  count: 40, budgets: [0.07, 0.3], routers: ["commonsenseqa", "random"],
  bad: `</title></svg><script>window.broken = true</script><img src=x onerror="window.broken = true">`,
  head: { task: `<script>window.broken = true</script>`, system: `"><b>${"long".repeat(80)}` },
});
choice("one.jsonl", { count: 1, budgets: [0.07], routers: ["top1", "random"] });
choice("none.jsonl", { count: 0, budgets: [0.07], routers: ["top1", "random"] });
