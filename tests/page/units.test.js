// The modules that know nothing of the page, tried without a browser.

import { test } from "node:test";
import assert from "node:assert/strict";

const page = new URL("../../crates/server/page/", import.meta.url);
const { EventParser } = await import(new URL("stream.js", page));
const { Answer, columnsOf } = await import(new URL("answer.js", page));
const { refusal, retryAfter, words, Problem } = await import(new URL("problems.js", page));
const { request } = await import(new URL("generate.js", page));
const { shareOf, thresholdAt } = await import(new URL("shares.js", page));
const { duration, percent, score, bytes, policyName, visible } = await import(new URL("format.js", page));

test("events are the same however their text is cut", () => {
  const text = 'data: {"a":1}\n\n: a remark\n\ndata: two\r\ndata: lines\r\n\r\nevent: x\ndata:bare\n\ndata: unfinished';
  const expected = ['{"a":1}', "two\nlines", "bare"];
  assert.deepEqual(new EventParser().push(text), expected);
  for (let size = 1; size < 12; size += 1) {
    const parser = new EventParser();
    const events = [];
    for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(events, expected, `in pieces of ${size}`);
  }
});

const token = (text, source, more = {}) => ({ text, source, score: 0.5, times: { edge_decode_ms: 5 }, ...more });
const chunk = (...tokens) => ({ choices: [{ delta: { content: tokens.map((t) => t.text).join("") }, finish_reason: null }], tandem: { tokens } });

test("an answer counts sources, gaps and bytes", () => {
  const answer = new Answer({ mode: "joint", threshold: 0.2 });
  answer.begin(1000);
  answer.take([chunk(token("a", "edge"))], 1040);
  answer.take([chunk(token(" bé", "cloud", { cloud: { decoded: 2 }, sent: "aé" }), token("c", "cloud"))], 1140);
  answer.take([chunk(token("d", "fallback")), chunk(token("e", "edge"))], 1160);
  assert.equal(answer.text, "a bécde");
  assert.equal(answer.first, 40);
  assert.deepEqual(answer.gaps, [{ ms: 50, source: "cloud" }, { ms: 50, source: "cloud" }, { ms: 10, source: "fallback" }, { ms: 10, source: "edge" }]);
  assert.equal(answer.longestWait, 100);
  assert.deepEqual(answer.counts, { edge: 2, cloud: 2, fallback: 1, plain: 0 });
  assert.deepEqual(answer.routed, [0, 1, 2, 2, 2]);
  assert.equal(answer.share, 0.4);
  assert.equal(answer.sentBytes, 3);
  assert.equal(answer.times.edge_decode_ms, 25);
  assert.equal(answer.headOf(2), 1);
  assert.equal(answer.headOf(4), 4);
});

test("the server's own sums win once they are there", () => {
  const answer = new Answer({ mode: "joint" });
  answer.begin(0);
  answer.take([chunk(token("a", "edge"))], 1);
  answer.take([{ choices: [{ delta: {}, finish_reason: "stop" }], tandem: { stats: { edge_decode_ms: 9, sent_bytes: 77, asks: 3, total_ms: 50 } } }], 2);
  assert.equal(answer.times.edge_decode_ms, 9);
  assert.equal(answer.sentBytes, 77);
  assert.equal(answer.askCount, 3);
  assert.equal(answer.total, 50);
  assert.equal(answer.finish, "stop");
});

test("many gaps become few bars, and no spike is lost", () => {
  const gaps = Array.from({ length: 1000 }, (_, i) => ({ ms: i === 517 ? 900 : 5, source: i === 517 ? "cloud" : "edge" }));
  const bars = columnsOf(gaps, 140);
  assert.equal(bars.length, 140);
  assert.deepEqual(bars.filter((bar) => bar.source === "cloud"), [{ ms: 900, source: "cloud" }]);
});

test("a request holds what its mode needs and never two bars", () => {
  const messages = [{ role: "user", content: "x" }];
  assert.deepEqual(request(messages, { mode: "joint", threshold: 0 }).tandem, { mode: "joint", trace: true, threshold: 0 });
  assert.deepEqual(request(messages, { mode: "joint", budget: 0.1, router: "margin" }).tandem, { mode: "joint", trace: true, budget: 0.1, router: "margin" });
  assert.deepEqual(request(messages, { mode: "small", router: "margin", onCloudError: "fail" }).tandem, { mode: "small", trace: true });
  const large = request(messages, { mode: "large", onCloudError: "fail", system: "Be brief.", maxTokens: 9 });
  assert.deepEqual(large.tandem, { mode: "large", trace: true, on_cloud_error: "fail" });
  assert.equal(large.model, "tandem-large");
  assert.equal(large.max_tokens, 9);
  assert.deepEqual(large.messages[0], { role: "system", content: "Be brief." });
});

test("Retry-After is seconds or a date", () => {
  assert.equal(retryAfter("7"), 7);
  assert.equal(retryAfter("Thu, 01 Jan 1970 00:01:40 GMT", 90_000), 10);
  assert.equal(retryAfter("Thu, 01 Jan 1970 00:00:10 GMT", 90_000), 0);
  assert.equal(retryAfter("soon"), null);
  assert.equal(retryAfter(null), null);
});

test("every problem says what to do", () => {
  for (const kind of ["key", "busy", "refused", "server", "unreachable", "lost", "stream"]) {
    const { title, advice } = words(new Problem(kind, "", { status: 500 }));
    assert.match(title, /^[A-Z].+\.$/);
    assert.match(advice, /try again/i, kind);
  }
});

test("figures in words", () => {
  assert.deepEqual([0, 0.02, 7.94, 187.4, 1610, 12345].map(duration), ["0 ms", "<0.1 ms", "7.9 ms", "187 ms", "1.61 s", "12.3 s"]);
  assert.deepEqual([0, 0.0002, 0.107, 1].map((n) => percent(n)), ["0\u202f%", "<0.1\u202f%", "10.7\u202f%", "100\u202f%"]);
  assert.deepEqual([0, 0.2, 0.989, 0.9991, 1].map(score), ["0.00", "0.20", "0.99", "0.999", "1.00"]);
  assert.deepEqual([1, 412, 1900].map(bytes), ["1 byte", "412 bytes", "1.9 kB"]);
  assert.equal(policyName({ budget: 0.07, threshold: null }), "budget 7\u202f%");
  assert.equal(policyName({ threshold: 0 }), "threshold 0.00");
  assert.equal(visible(" a\n"), "␣a⏎");
});

test("a slider of thresholds is linear in the share of tokens", () => {
  const table = [[0.01, 0.83], [0.1, 0.95], [0.7, 0.998]];
  assert.ok(Math.abs(thresholdAt(table, 0.055) - 0.89) < 1e-9);
  for (const share of [0, 0.005, 0.01, 0.2, 0.7, 0.9, 1]) {
    assert.ok(Math.abs(shareOf(table, thresholdAt(table, share)) - share) < 1e-9, String(share));
  }
  assert.deepEqual([thresholdAt(table, 0), thresholdAt(table, 1)], [0, 1]);
  assert.deepEqual([thresholdAt(undefined, 0.3), shareOf(undefined, 0.3)], [0.3, 0.3]);
});

test("what the operator does not allow asks for no key", async () => {
  const answer = (status, message) => new Response(JSON.stringify({ error: { message } }), { status });
  assert.equal((await refusal(answer(401, "a valid API key is needed"))).kind, "key");
  const forbidden = await refusal(answer(403, "tandem-large is not allowed here: use tandem-small"));
  assert.equal(forbidden.kind, "refused");
  const { title, advice } = words(forbidden);
  assert.match(title, /did not take this request \(403\)/);
  assert.match(advice, /^Tandem-large is not allowed here: use tandem-small\.$/);
});
