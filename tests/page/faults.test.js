// What the page says and does when something goes wrong. All scripted, so for the mock alone.

import { after, test } from "node:test";
import assert from "node:assert/strict";
import { REAL, ask, finished, lastAnswer, quit, send, withPage } from "./browser.js";

after(quit);
const scripted = REAL ? test.skip : test;
const QUESTION = "Why does ice float on water?";
const problem = (page) => lastAnswer(page).getByRole("alert");

scripted("a busy server: says so and when to try again; trying again works", () =>
  withPage(
    async (page, mock) => {
      await ask(page, "mock:busy");
      assert.match(await problem(page).textContent(), /The server is busy\. 8 generations run and 16 wait\. It says to try again in 2 seconds\./);
      assert.match(await problem(page).getByRole("button").textContent(), /^Try again \(in [12] s\)$/);
      await problem(page).getByRole("button", { name: "Try again", exact: true }).waitFor();
      await problem(page).getByRole("button").click();
      await lastAnswer(page).locator(".facts").waitFor();
      assert.equal(await page.getByRole("alert").count(), 0);
      assert.equal(mock.requests.length, 2);
      assert.equal(await page.locator(".turn").count(), 1);
    },
    { expected: /status of 503/ },
  ));

scripted("a refused request is told in the server's words, and left out of the conversation", () =>
  withPage(
    async (page, mock) => {
      await ask(page, "mock:refuse");
      assert.match(await problem(page).textContent(), /did not take this request \(400\)\. The prompt has 9000 tokens, the context holds 2048/);
      assert.match(await problem(page).textContent(), /not part of the conversation/);
      await ask(page, QUESTION);
      assert.deepEqual(mock.requests[1].messages, [{ role: "user", content: QUESTION }]);
    },
    { expected: /status of 400/ },
  ));

scripted("a server that failed", () =>
  withPage(
    async (page) => {
      await ask(page, "mock:fail");
      assert.match(await problem(page).textContent(), /The server failed \(500\)\. The engine stopped\. Try again/);
    },
    { expected: /status of 500/ },
  ));

scripted("an error inside a stream keeps the text so far", () =>
  withPage(async (page, mock) => {
    await ask(page, "mock:break");
    assert.match(await problem(page).textContent(), /The answer broke off: the server met an error\. The engine ran out of memory\. The text so far is kept\./);
    assert.equal(await lastAnswer(page).locator(".tokens").textContent(), "Ice floats because it is less");
    await ask(page, QUESTION);
    assert.equal(mock.requests[1].messages[1].content, "Ice floats because it is less");
  }));

scripted("a lost connection says so and keeps the text so far", () =>
  withPage(
    async (page) => {
      await ask(page, "mock:cut");
      assert.match(await problem(page).textContent(), /The connection was lost\. The text so far is kept\./);
      assert.equal(await lastAnswer(page).locator(".tokens").textContent(), "Ice floats because it is less");
    },
    { expected: /ERR_INCOMPLETE_CHUNKED_ENCODING/ },
  ));

scripted("a server that is gone is told in words, and can be tried again", () =>
  withPage(
    async (page, mock) => {
      await ask(page, QUESTION);
      await mock.close();
      await ask(page, "Are you there?");
      assert.match(await problem(page).textContent(), /The server cannot be reached\. Check that tandem serve is still running/);
      assert.equal(await page.locator("#prompt").isEnabled(), true);
    },
    { expected: /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET/ },
  ));

scripted("a page without its server's facts says so, and finds them later", () =>
  withPage(
    async (page) => {
      await page.route("**/v1/tandem", (route) => route.abort(), { times: 1 });
      await page.reload();
      await page.getByRole("alert").waitFor();
      assert.match(await page.locator("#status").textContent(), /The server cannot be reached/);
      assert.equal(await page.locator("#pair").textContent(), "not connected");
      await page.getByRole("button", { name: "Try again" }).click();
      await page.waitForFunction(() => /SmolLM2/.test(document.querySelector("#pair").textContent));
      assert.equal(await page.getByRole("alert").count(), 0);
    },
    { expected: /ERR_FAILED/ },
  ));

scripted("a key is asked for, kept for the tab, and asked for anew when wrong", () =>
  withPage(
    async (page, mock) => {
      const dialog = page.getByRole("dialog", { name: "This server asks for a key" });
      await dialog.waitFor();
      assert.match(await dialog.textContent(), /Ask whoever runs the server for it/);
      await page.locator("#key").fill("wrong");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => /not one of the server's/.test(document.querySelector("#key-words").textContent));
      await page.locator("#key").fill("right");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => /SmolLM2/.test(document.querySelector("#pair").textContent));
      await ask(page, QUESTION);
      assert.ok((await lastAnswer(page).locator(".token[data-index]").count()) > 10);
      assert.equal(mock.refusals, 2);
      await page.reload();
      await page.waitForFunction(() => /SmolLM2/.test(document.querySelector("#pair").textContent));
      assert.doesNotMatch(await page.evaluate(() => JSON.stringify(localStorage)), /right/, "never kept beyond the tab");
      assert.equal(mock.refusals, 2);
    },
    { mock: { key: "right" }, expected: /status of 401/ },
  ));

scripted("without the key a message is kept and says what is missing", () =>
  withPage(
    async (page) => {
      await page.getByRole("button", { name: "Cancel" }).click();
      await send(page, QUESTION);
      await page.getByRole("dialog").waitFor();
      await page.keyboard.press("Escape");
      await finished(page);
      assert.match(await problem(page).textContent(), /The server wants an access key\./);
      await problem(page).getByRole("button", { name: "Try again" }).click();
      await page.locator("#key").fill("right");
      await page.getByRole("button", { name: "Use this key" }).click();
      await lastAnswer(page).locator(".facts").waitFor();
      assert.equal(await page.locator(".said").textContent(), QUESTION);
    },
    { mock: { key: "right" }, expected: /status of 401/ },
  ));
