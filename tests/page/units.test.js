// The modules that know nothing of the page, tried without a browser.

import { test } from "node:test";
import assert from "node:assert/strict";

const page = new URL("../../crates/server/page/", import.meta.url);
const { EventParser } = await import(new URL("stream.js", page));
const { Answer, columnsOf } = await import(new URL("answer.js", page));
const { refusal, retryAfter, words, Problem } = await import(new URL("problems.js", page));
const { request } = await import(new URL("generate.js", page));
const { shareOf, thresholdAt } = await import(new URL("shares.js", page));
const { Store } = await import(new URL("store.js", page));
const { blocks } = await import(new URL("readable.js", page));
const { fileName, json, markdown } = await import(new URL("export.js", page));
const { readText } = await import(new URL("attach.js", page));
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

/** A browser's storage with room for so many characters. */
function memory(room = Infinity) {
  const kept = new Map();
  return {
    get length() {
      return kept.size;
    },
    key: (i) => [...kept.keys()][i],
    getItem: (key) => kept.get(key) ?? null,
    removeItem: (key) => kept.delete(key),
    setItem(key, value) {
      const others = [...kept].reduce((sum, [k, v]) => sum + (k === key ? 0 : v.length), 0);
      if (others + value.length > room) throw new DOMException("full", "QuotaExceededError");
      kept.set(key, value);
    },
  };
}

const chatOf = (id, size = 1000) => ({ id, title: `title ${id}`, turns: [{ text: "x".repeat(size) }] });
const ids = (store) => store.list().map((each) => each.id);

test("conversations are kept below a bound, the oldest leave", () => {
  const place = memory();
  const store = new Store(place, 3300);
  for (const [now, id] of ["a", "b", "c"].entries()) assert.equal(store.save(chatOf(id), now), "");
  assert.deepEqual(ids(store), ["c", "b", "a"]);
  // One that is written again is the latest.
  assert.equal(store.save(chatOf("a"), 4), "");
  assert.equal(store.save(chatOf("d"), 5), "");
  assert.deepEqual(ids(store), ["d", "a", "c"]);
  assert.equal(store.load("b"), null);
  assert.equal(store.load("a")[0].text.length, 1000);
  // Too long for the bound: nothing else has to leave for it, and no earlier state of it passes for the whole.
  assert.equal(store.save(chatOf("a", 4000), 6), "long");
  assert.deepEqual(ids(store), ["d", "c"]);
  assert.equal(store.load("a"), null);
  store.remove("d");
  assert.deepEqual(ids(store), ["c"]);
  place.setItem("tandem-theme", "dark");
  place.setItem("tandem-chat-lost", "{}");
  store.clear();
  assert.deepEqual([place.length, place.getItem("tandem-theme")], [1, "dark"]);
});

test("a browser that gives less, or nothing, is heeded", () => {
  const small = new Store(memory(2600));
  for (const [now, id] of ["a", "b", "c"].entries()) assert.equal(small.save(chatOf(id), now), "");
  assert.deepEqual(ids(small), ["c", "b"]);
  const place = memory(0);
  assert.equal(new Store(place).save(chatOf("a"), 1), "refused");
  assert.equal(place.length, 0);
  const none = new Store(null);
  assert.deepEqual([none.works, none.save(chatOf("a"), 1), none.list(), none.load("a")], [false, "refused", [], null]);
});

test("what another version or somebody else wrote is no conversation", () => {
  const place = memory();
  place.setItem("tandem-chats", "{");
  place.setItem("tandem-chat-a", '{"version": 99, "turns": []}');
  place.setItem("tandem-chat-b", "nonsense");
  const store = new Store(place);
  assert.deepEqual([store.list(), store.load("a"), store.load("b")], [[], null, null]);
});

test("an answer that was kept is the same answer", () => {
  const answer = new Answer({ mode: "joint", threshold: 0.2 });
  answer.begin(0);
  answer.take([chunk(token("a", "edge"))], 40);
  answer.take([chunk(token(" b", "cloud", { cloud: { decoded: 2 }, sent: "ab", score: 0.12345 }), token("c", "fallback"))], 140);
  answer.take([{ choices: [{ delta: {}, finish_reason: "stop" }], tandem: { threshold: 0.2, stats: { edge_decode_ms: 9, sent_bytes: 77, asks: 3, total_ms: 50 } } }], 150);
  answer.end("done");
  const again = Answer.restored(JSON.parse(JSON.stringify(answer.kept())));
  for (const name of ["text", "content", "counts", "routed", "gaps", "first", "longestWait", "asks", "finish", "state", "share", "sentBytes", "askCount", "total", "times"]) {
    assert.deepEqual(again[name], answer[name], name);
  }
  assert.deepEqual(again.tokens.map((t) => t.score), [0.5, 0.1235, 0.5]);
  // One that runs when the page is left did not end.
  const running = new Answer({ mode: "small" });
  assert.equal(Answer.restored(JSON.parse(JSON.stringify(running.kept()))).state, "stopped");
});

const cut = (text) => text.match(/\w+|\s|[^\w\s]/g).map((piece) => ({ text: piece }));
const shown = (text) => blocks(cut(text))?.map(({ name, pieces }) => [name, pieces.map((piece) => piece.text).join("")]) ?? null;

test("JSON is laid out, and each sign stays its token's", () => {
  assert.deepEqual(shown('{"a": 1, "b": [1, {}], "c": "x, \\"y\\": {"}'), [
    ["JSON, 3 fields", '{\n  "a": 1,\n  "b": [\n    1,\n    {}\n  ],\n  "c": "x, \\"y\\": {"\n}'],
  ]);
  assert.deepEqual(shown("Here:\n```json\n[1, 2]\n```\nDone."), [
    [null, "Here:\n"],
    ["JSON, 2 items", "```json\n[\n  1,\n  2\n]\n```"],
    [null, "\nDone."],
  ]);
  assert.deepEqual(shown('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'), [
    ["Call of f", '<tool_call>\n{\n  "name": "f",\n  "arguments": {}\n}\n</tool_call>'],
  ]);
  for (const text of ["plain text", "12", '{"a": ', '{"a": 1} and more', "<tool_call>{}"]) assert.equal(shown(text), null, text);
  assert.deepEqual(blocks([{ text: '{"' }, { text: "" }, { text: "ab" }, { text: '": 1}' }])[0].pieces, [
    { index: 0, text: "{" },
    { index: null, text: "\n  " },
    { index: 0, text: '"' },
    { index: 2, text: "ab" },
    { index: 3, text: '":' },
    { index: null, text: " " },
    { index: 3, text: "1" },
    { index: null, text: "\n" },
    { index: 3, text: "}" },
  ]);
});

test("a conversation as a file says who wrote each token, with its score", () => {
  const answer = new Answer({ mode: "joint", threshold: 0.2 });
  answer.begin(0);
  answer.take([chunk(token("Ice", "edge", { score: 0.912 }), token(" |`", "cloud", { score: 0.1, sent: "q" }))], 10);
  answer.end("done");
  const server = { version: "1", edge: { name: "small" }, cloud: { name: "large", place: "remote" }, router: { name: "top1" }, tables: {} };
  const turns = [{ text: "Why?", file: { name: "a.md", text: "```\nx\n```" }, answer }];
  const text = markdown({ title: "Why?", server, turns });
  assert.match(text, /^# Why\?\n\nsmall on this device, large in the cloud\.\n/);
  assert.match(text, /\n````\n```\nx\n```\n````\n/, "marks inside the file do not end it");
  assert.match(text, /\nIce \|`\n/);
  assert.match(text, /\*joint, threshold 0\.20; 2 tokens; 1 from the cloud \(50\.0\s%\)\.\*/);
  assert.match(text, /\| 1 \| `Ice` \| device \| 0\.91 \|\n\| 2 \| `` ␣\\\|` `` \| cloud \| 0\.10 \|/);
  const read = JSON.parse(json({ title: "Why?", server, turns }, new Date(0)));
  assert.deepEqual([read.format, read.version, read.exported], ["tandem-conversation", 1, "1970-01-01T00:00:00.000Z"]);
  assert.equal(read.turns[0].message.file, "a.md");
  assert.deepEqual(read.turns[0].answer.tokens.map((t) => [t.text, t.source, t.score]), [["Ice", "edge", 0.912], [" |`", "cloud", 0.1]]);
  assert.deepEqual([read.server.cloud.name, read.server.tables], ["large", undefined]);
  assert.equal(fileName("Why, oh why?", "md"), "why-oh-why.md");
  assert.equal(fileName("???", "json"), "conversation.json");
});

test("a file is attached if it is text and fits the context", async () => {
  const refused = async (bytes, name = "f") => {
    const told = await readText(new File([bytes], name), 1000).then(() => "", (error) => error.message);
    assert.notEqual(told, "", "it was taken");
    return told;
  };
  assert.deepEqual(await readText(new File(["one\r\ntwo é\n"], "a.txt"), 1000), { name: "a.txt", text: "one\ntwo é" });
  assert.equal((await readText(new File(["x".repeat(3000)], "f"), 1000)).text.length, 3000);
  assert.equal(await refused("x".repeat(3001), "big.log"), "big.log has 3.0 kB. The context of this server is 1000 tokens, so a file may have 3.0 kB: attach a part of it.");
  for (const bytes of [new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0xff]), "with \0 inside"]) assert.match(await refused(bytes), /is not a text file in UTF-8/);
  assert.match(await refused(" \n"), /is empty/);
});

test("tools, a form and results of tools are sent as the API has them", async () => {
  const { said, written } = await import(new URL("message.js", page));
  const tools = [{ type: "function", function: { name: "f" } }];
  const body = request([], { mode: "small", tools, form: "json_object" });
  assert.deepEqual([body.tools, body.response_format], [tools, { type: "json_object" }]);
  assert.deepEqual(written({ text: "x <tool_call>", content: "x", calls: [{ id: "1", name: "f", arguments: "{}" }] }), {
    role: "assistant",
    content: "x",
    tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }],
  });
  assert.deepEqual(said({ text: "", results: [{ id: "1", name: "f", text: "rain" }] }), [{ role: "tool", tool_call_id: "1", content: "rain" }]);
  assert.deepEqual(said({ text: "What?", file: { name: "a", text: "b" } }), [{ role: "user", content: "What?\n\nThe file a:\n```\nb\n```" }]);
});
