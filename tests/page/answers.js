// The scripted answers of the mock server: text cut into tokens, each with a score that depends on
// nothing but its place, so that a threshold routes the same tokens every time.

const ICE =
  "Ice floats because it is less dense than liquid water. When water freezes, its molecules settle into an open lattice, held apart by hydrogen bonds, so the same mass takes up about nine per cent more room. A lake therefore freezes from the top, and the water below stays liquid through the winter.\n\nMost other substances shrink as they freeze; their solid form sinks.";
const PACK =
  "Pack lightly and ride a short loop first. Carry water, a spare tube and a small pump. Eat before you are hungry, and rest before you are tired.";
const MARKUP =
  '<img src=x onerror="window.hacked = true"><script>window.hacked = true</script> <b>bold</b> &amp; <a href="javascript:window.hacked = true">here</a>';

const RECORD = '{"name": "Ada", "born": {"year": 1815}, "fields": ["algebra", "<b>engines</b>"]}';
const LOOK = "Let me look.\n";

/** A call of a tool: what is called, and the first of its tokens. */
export const CALL = { name: "get_weather", arguments: '{"city": "Rome", "days": 2}', from: 5 };

/** The text for a prompt. `mock:` asks for something particular. */
export function textFor(prompt) {
  const [, kind, size] = /^mock:(\w+)\s*(\d*)/.exec(prompt) ?? [];
  if (kind === "html") return MARKUP;
  if (kind === "long") return Array.from({ length: Number(size) }, (_, i) => (i % 12 === 11 ? `end${i}.` : `word${i}`)).join(" ");
  if (kind === "slow") return Array.from({ length: 300 }, (_, i) => `slow${i}`).join(" ");
  if (kind === "unbroken") return "W".repeat(1500);
  if (kind === "emoji") return "A wave 👋 here.";
  if (kind === "empty") return "";
  if (kind === "json") return RECORD;
  if (kind === "call") return `${LOOK}<tool_call>\n{"name": "${CALL.name}", "arguments": ${CALL.arguments}}\n</tool_call>`;
  return /tip|tour|pack/i.test(prompt) ? PACK : ICE;
}

const hash = (n) => {
  const x = Math.sin(n * 127.1 + 11.7) * 43758.5453;
  return x - Math.floor(x);
};

const OTHERS = [" the", " a", " water", " less", ",", " and", " more", " its"];

/** Edge proposals: text, score, whether the cloud may be asked there, alternatives. */
export function proposals(text, { markup = false } = {}) {
  const pieces = text.match(/👋| ?[A-Za-z0-9]+|\s|[^A-Za-z0-9\s]/gu) ?? [];
  return pieces.map((piece, index) => {
    const score = Math.round(Math.sqrt(hash(index + 1)) * 1000) / 1000;
    const rest = (1 - score) / 2;
    const others = [0, 1, 2, 3].map((k) => ({
      text: markup ? `<b id="guess${k}">` : OTHERS[(index + k) % OTHERS.length],
      probability: rest * 0.5 ** k,
    }));
    const alternatives = [{ text: piece, probability: score }, ...others].sort((a, b) => b.probability - a.probability);
    return { text: piece, score, eligible: /^[\s]|^[^\w]/.test(piece) || index === 0, alternatives };
  });
}

const NO_TIMES = {
  edge_prefill_ms: 0, edge_decode_ms: 0, router_ms: 0, cloud_load_ms: 0, cloud_queue_ms: 0, cloud_prefill_ms: 0, cloud_decode_ms: 0, network_ms: 0,
};

/** The trace of an answer: who writes each token, and what that costs. */
export function trace(prompt, { mode, threshold, budget }) {
  const list = proposals(textFor(prompt), { markup: prompt.startsWith("mock:html") });
  const down = prompt.startsWith("mock:down");
  const scores = list.filter((p) => p.eligible).map((p) => p.score).sort((a, b) => a - b);
  const bar = budget === undefined ? threshold ?? 0.2 : scores[Math.floor(budget * list.length)] ?? 1;
  let since = `user: ${prompt}\nassistant:`;
  let asked = false;
  const tokens = list.map((p, index) => {
    const wanted = mode === "large" || (mode === "joint" && p.eligible && p.score < bar);
    const source = !wanted ? "edge" : down ? "fallback" : "cloud";
    const times = { ...NO_TIMES };
    if (mode !== "large") {
      Object.assign(times, { edge_prefill_ms: index === 0 ? 48 : 0, edge_decode_ms: 7 + hash(index) * 2, router_ms: mode === "joint" ? 0.03 : 0 });
    }
    const token = { index, id: 1000 + index, text: p.text, source, score: mode === "joint" ? p.score : null, eligible: p.eligible, times, alternatives: mode === "large" ? [] : p.alternatives };
    if (source === "cloud") {
      const first = !asked;
      asked = true;
      Object.assign(times, { cloud_load_ms: first ? 160 : 0, cloud_queue_ms: 0.4, cloud_prefill_ms: first ? 180 : 22, cloud_decode_ms: 38 + hash(index) * 20, network_ms: 4 });
      token.cloud = { prefilled: since.split(" ").length, cached: first ? 0 : 12 + index, decoded: 3 };
      token.exchange = "text";
      token.sent = since;
      since = "";
    }
    // What a form forces is not asked for.
    if (prompt.startsWith("mock:json") && index === 0) token.constrained = "forced";
    since += p.text;
    return token;
  });
  if (prompt.startsWith("mock:emoji")) splitWave(tokens);
  return tokens;
}

/** A character of two tokens: the first has no text yet. */
function splitWave(tokens) {
  const at = tokens.findIndex((t) => t.text === "👋");
  tokens.splice(at, 0, { ...tokens[at], text: "" });
  tokens.forEach((token, index) => Object.assign(token, { index }));
}

/** The figures at the end, by the server's names. */
export function stats(tokens, total) {
  const cloud = tokens.filter((t) => t.source === "cloud");
  const sum = (of) => tokens.reduce((all, t) => all + of(t), 0);
  const characters = sum((t) => [...t.text].length);
  return {
    tokens: tokens.length,
    cloud_tokens: cloud.length,
    fallback_tokens: tokens.filter((t) => t.source === "fallback").length,
    fallback_end: false,
    routed_share: cloud.length / Math.max(1, tokens.length),
    asks: tokens.filter((t) => t.cloud).length,
    cloud_prefilled: sum((t) => t.cloud?.prefilled ?? 0),
    cloud_cached: sum((t) => t.cloud?.cached ?? 0),
    cloud_decoded: sum((t) => t.cloud?.decoded ?? 0),
    characters,
    time_to_first_token_ms: 52,
    mean_time_between_tokens_ms: total / Math.max(1, tokens.length),
    total_ms: Math.max(total, sum((t) => Object.values(t.times).reduce((a, b) => a + b, 0))),
    tokens_per_second: (tokens.length / Math.max(1, total)) * 1000,
    characters_per_second: (characters / Math.max(1, total)) * 1000,
    ...Object.fromEntries(Object.keys(NO_TIMES).map((part) => [part, sum((t) => t.times[part])])),
    edge_prefilled: 31,
    edge_cached: 0,
    fallbacks: tokens.filter((t) => t.source === "fallback").length,
    sent_bytes: sum((t) => (t.sent === undefined ? 0 : Buffer.byteLength(t.sent))),
  };
}
