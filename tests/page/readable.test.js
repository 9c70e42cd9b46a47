// Answers that are JSON, and calls of tools: laid out, folded, and still each word its writer's.

import { after, test } from "node:test";
import assert from "node:assert/strict";
import { REAL, ask, finished, lastAnswer, quit, send, slide, withPage } from "./browser.js";
import { CALL, textFor } from "./answers.js";

after(quit);
const scripted = REAL ? test.skip : test;
const TOOLS = [{ type: "function", function: { name: CALL.name, parameters: { type: "object", properties: { city: { type: "string" } } } } }];
const code = (answer) => answer.locator(".block .code").first();

/** Offers tools as a user would. */
async function offer(page, text) {
  await page.locator("#more").click();
  await page.locator("#tools").fill(text);
  await page.locator("#more").click();
}

scripted("an answer in JSON is laid out, can be folded, and shows who wrote what", () =>
  withPage(async (page) => {
    await slide(page, 0.6);
    const answer = await ask(page, "mock:json");
    const laid = await code(answer).textContent();
    assert.equal(laid, JSON.stringify(JSON.parse(textFor("mock:json")), null, 2));
    assert.equal(await answer.locator(".block summary").textContent(), "JSON, 3 fields");
    assert.ok((await code(answer).locator(".token.cloud[data-index]").count()) > 0);
    assert.ok((await code(answer).locator(".token.edge[data-index]").count()) > 0);
    await code(answer).locator(".token.cloud[data-index]").first().hover();
    await page.locator("#card").waitFor();
    assert.match(await page.locator("#card").textContent(), /From the cloud/);
    await page.locator("h1").hover();
    await page.locator("#card").waitFor({ state: "hidden" });
    await code(answer).locator(".token[data-index='0']").first().hover();
    await page.locator("#card").waitFor();
    assert.match(await page.locator("#card").textContent(), /leaves no other choice here, so no model was asked/);
    await answer.locator(".block summary").click();
    assert.ok(await code(answer).isHidden());
    // Stepping through the words opens it again.
    await answer.locator(".tokens").focus();
    await page.keyboard.press("ArrowRight");
    assert.ok(await code(answer).isVisible());
    assert.equal(await answer.locator(".token.current").getAttribute("data-index"), "0");
    await page.keyboard.press("ArrowRight");
    assert.equal(await answer.locator(".token.current").getAttribute("data-index"), "1", "each token once, however many lines it is on");
    // As it was written, and back.
    await page.keyboard.press("Escape");
    await answer.getByRole("button", { name: "As written" }).click();
    assert.equal(await answer.locator(".tokens").textContent(), textFor("mock:json"));
    await answer.getByRole("button", { name: "Laid out" }).click();
    assert.equal(await code(answer).textContent(), laid);
    assert.equal(await page.locator("main b").count(), 0, "what is in JSON is text");
  }));

scripted("JSON is asked for where the form says so", () =>
  withPage(async (page, mock) => {
    await page.locator("#more").click();
    await page.locator("#form").selectOption("json_object");
    await ask(page, "mock:json");
    assert.deepEqual(mock.requests[0].response_format, { type: "json_object" });
  }));

scripted("a call of a tool is shown, and its result goes back", () =>
  withPage(async (page, mock) => {
    await offer(page, JSON.stringify(TOOLS));
    await slide(page, 0.6);
    const answer = await ask(page, "mock:call");
    assert.deepEqual(mock.requests[0].tools, TOOLS);
    assert.equal(await answer.locator(".block summary").textContent(), "Call of get_weather");
    assert.match(await code(answer).textContent(), /"arguments": \{\n {4}"city": "Rome",\n {4}"days": 2\n {2}\}/);
    assert.match(await answer.locator(".tokens").textContent(), /^Let me look\./);
    assert.ok((await code(answer).locator(".token.cloud[data-index]").count()) > 0);
    await answer.getByLabel("Result of get_weather").fill('{"sky": "clear"}');
    await answer.getByRole("button", { name: "Send the result" }).click();
    await page.locator(".turn").nth(1).locator(".facts").waitFor();
    await finished(page);
    assert.deepEqual(mock.requests[1].messages, [
      { role: "user", content: "mock:call" },
      { role: "assistant", content: "Let me look.\n", tool_calls: [{ id: "call_1", type: "function", function: { name: CALL.name, arguments: CALL.arguments } }] },
      { role: "tool", tool_call_id: "call_1", content: '{"sky": "clear"}' },
    ]);
    assert.equal(await page.locator(".results").count(), 0);
    assert.match(await page.locator(".said").last().textContent(), /Result of get_weather\{"sky": "clear"\}/);
    // Kept and shown again, it is the same.
    await page.reload();
    await page.locator("#chats").click();
    await page.locator("#chats-list .kept").click();
    assert.equal(await page.locator(".turn").first().locator(".block summary").textContent(), "Call of get_weather");
  }));

scripted("a call without a trace is shown as well", () =>
  withPage(async (page) => {
    await page.route("**/v1/chat/completions", (route) => {
      const chunk = (delta, finish_reason) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
      const call = { index: 0, id: "call_1", type: "function", function: { name: CALL.name, arguments: CALL.arguments } };
      route.fulfill({ contentType: "text/event-stream", body: `${chunk({ tool_calls: [call] }, null)}${chunk({}, "tool_calls")}data: [DONE]\n\n` });
    });
    const answer = await ask(page, "Weather?");
    assert.equal(await answer.locator(".block summary").textContent(), "Call of get_weather");
    assert.equal(await code(answer).textContent(), '{\n  "city": "Rome",\n  "days": 2\n}');
    assert.doesNotMatch(await answer.textContent(), /The answer is empty/);
  }));

scripted("tools that are no JSON are told before anything is sent", () =>
  withPage(async (page, mock) => {
    await offer(page, "{nonsense");
    await send(page, "Hello");
    assert.match(await page.locator("#tools-words").textContent(), /^This must be a list in JSON/);
    assert.equal(await page.evaluate(() => document.activeElement.id), "tools");
    assert.equal(await page.locator("#tools").getAttribute("aria-invalid"), "true");
    assert.equal(mock.requests.length, 0);
    assert.equal(await page.locator("#prompt").inputValue(), "Hello", "the message is not lost");
    await page.locator("#tools").fill("");
    assert.equal(await page.locator("#tools-words").textContent(), "");
    await page.locator("#prompt").press("Enter");
    await lastAnswer(page).locator(".facts").waitFor();
    assert.equal(mock.requests[0].tools, undefined);
  }));

scripted("in a comparison JSON is laid out too", () =>
  withPage(async (page) => {
    await page.getByRole("button", { name: "Compare" }).first().click();
    await send(page, "mock:json");
    await finished(page);
    assert.equal(await page.locator(".lane .block summary").count(), 3);
    await page.locator(".lane").first().getByRole("button", { name: "As written" }).click();
    assert.equal(await page.locator(".lane .block summary").count(), 2);
  }));
