// Figures in words.

/** 9.4 ms, 187 ms, 1.61 s. */
export function duration(ms) {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms >= 10) return `${Math.round(ms)} ms`;
  if (ms >= 0.1) return `${ms.toFixed(1)} ms`;
  return ms > 0 ? "<0.1 ms" : "0 ms";
}

/** 10.7 %; nothing and all without digits, and never nothing for a little. */
export function percent(share, digits = 1) {
  const least = 10 ** -digits;
  if (share > 0 && share * 100 < least / 2) return `<${least}\u202f%`;
  return `${(share * 100).toFixed(share === 0 || share === 1 ? 0 : digits)}\u202f%`;
}

/** 7 %, 7.5 %: a share that somebody set, without digits it does not have. */
export const setShare = (share) => percent(share, Number.isInteger(Math.round(share * 1000) / 10) ? 0 : 1);

/** 412 bytes, 1.9 kB. */
export function bytes(count) {
  if (count === 1) return "1 byte";
  if (count < 1000) return `${count} bytes`;
  if (count < 1_000_000) return `${(count / 1000).toFixed(1)} kB`;
  return `${(count / 1_000_000).toFixed(1)} MB`;
}

/** SmolLM2-135M: a model's name without what only its file needs, such as -Instruct-Q4_1.gguf. */
export const modelName = (name) =>
  name.replace(/\.gguf$/i, "").replace(/[-_.](i?q\d\w*|bf16|f16|fp16|f32)$/i, "").replace(/[-_.](instruct|chat|it)$/i, "");

const PLACES = { embedded: "in this program", remote: "in the cloud" };

/** Both models of a server and where they are, with `name` for what a model is called. */
export function pairName(server, name = (own) => own) {
  const { name: large, place } = server?.cloud ?? {};
  const cloud = place === "none" ? "no cloud" : `${name(large ?? "a large model")} ${PLACES[place] ?? ""}`.trim();
  return `${name(server?.edge?.name ?? "a small model")} on this device, ${cloud}`;
}

/** What a server says of one of its pairs; without a name, or without such a pair, of its own. */
export const pairOf = (server, name) => server.pairs?.find((pair) => pair.name === name) ?? server;

/** 1 token, 2 tokens. */
export const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

/** A threshold or a score: two digits, three where two would round it to one of the ends. */
export function score(value) {
  const short = value.toFixed(2);
  return (short === "1.00" && value < 1) || (short === "0.00" && value > 0) ? value.toFixed(3) : short;
}

/** What stands for the bar of an answer: "threshold 0.20", "budget 7 %". */
export function policyName({ threshold, budget }) {
  if (budget !== undefined && budget !== null) return `budget ${setShare(budget)}`;
  if (threshold !== undefined && threshold !== null) return `threshold ${score(threshold)}`;
  return "";
}

/** A token with its white space made visible. */
export const visible = (text) =>
  text === "" ? "(part of a character)" : text.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
