// The conversation: send, stream, stop, follow up, copy, begin anew.

import { after, test } from "node:test";
import assert from "node:assert/strict";
import { REAL, ask, finished, lastAnswer, quit, send, shorten, slide, withPage } from "./browser.js";
import { textFor } from "./answers.js";

after(quit);
const scripted = REAL ? test.skip : test;
const QUESTION = "Why does ice float on water?";
const LONG = REAL ? "Write a long story about a lake in winter." : "mock:slow";

test("a message gets a streamed answer, tinted by source", () =>
  withPage(async (page, mock) => {
    if (REAL) await shorten(page);
    await slide(page, 0.35);
    await send(page, QUESTION);
    await page.locator("#stop").waitFor();
    await lastAnswer(page).locator(".token[data-index]").first().waitFor();
    await finished(page);
    // The facts come last; before them the end of the text may not be painted yet.
    assert.match(await lastAnswer(page).locator(".facts").textContent(), /\d+ device/);
    const text = await lastAnswer(page).locator(".tokens").textContent();
    const shown = await lastAnswer(page).locator(".token[data-index]").count();
    assert.ok(shown > 3);
    assert.equal(await page.locator(".said").textContent(), QUESTION);
    if (!mock) return;
    assert.equal(text, textFor(QUESTION));
    assert.equal(await lastAnswer(page).locator(".token.cloud[data-index]").count(), 7);
    assert.equal(await lastAnswer(page).locator(".token.edge[data-index]").count(), 68);
    const { messages, stream, tandem, model } = mock.requests[0];
    assert.deepEqual({ messages, stream, tandem, model }, {
      messages: [{ role: "user", content: QUESTION }],
      stream: true,
      model: "tandem-joint",
      tandem: { mode: "joint", trace: true, threshold: 0.35 },
    });
  }));

test("text appears while the answer still runs", () =>
  withPage(async (page) => {
    await send(page, LONG);
    const tokens = lastAnswer(page).locator(".token[data-index]");
    await tokens.nth(2).waitFor();
    const before = await tokens.count();
    assert.ok(await page.locator("#stop").isVisible());
    await tokens.nth(before + 3).waitFor();
    await page.locator("#stop").click();
    await finished(page);
  }));

for (const [name, press] of [
  ["the button", (page) => page.locator("#stop").click()],
  ["Escape", (page) => page.keyboard.press("Escape")],
]) {
  test(`${name} stops an answer; its text is kept`, () =>
    withPage(async (page, mock) => {
      await send(page, LONG);
      await lastAnswer(page).locator(".token[data-index]").nth(4).waitFor();
      await press(page);
      await finished(page);
      const text = await lastAnswer(page).locator(".tokens").textContent();
      assert.ok(text.length > 0);
      await page.waitForTimeout(200);
      assert.equal(await lastAnswer(page).locator(".tokens").textContent(), text);
      assert.match(await lastAnswer(page).textContent(), /Stopped\. The text so far is kept\./);
      // The server sees the client go away.
      if (mock) assert.equal(mock.aborted, 1);
    }));
}

scripted("an answer can be stopped before its first token", () =>
  withPage(async (page, mock) => {
    await send(page, "mock:hang");
    await page.locator(".thinking").waitFor();
    await page.locator("#stop").click();
    await finished(page);
    assert.match(await lastAnswer(page).textContent(), /Stopped before the first token/);
    await page.waitForTimeout(50);
    assert.equal(mock.aborted, 1);
  }));

test("a follow-up carries the conversation", () =>
  withPage(async (page, mock) => {
    if (REAL) await shorten(page);
    await ask(page, QUESTION);
    await ask(page, "And what should I pack?");
    assert.equal(await page.locator(".turn").count(), 2);
    assert.equal(await page.locator(".again").count(), 1, "only the last answer can be asked for again");
    if (!mock) return;
    assert.deepEqual(mock.requests[1].messages, [
      { role: "user", content: QUESTION },
      { role: "assistant", content: textFor(QUESTION) },
      { role: "user", content: "And what should I pack?" },
    ]);
  }));

test("asking again answers the same message with the settings of now", () =>
  withPage(async (page, mock) => {
    if (REAL) await shorten(page);
    await ask(page, QUESTION);
    await page.locator("input[value=small]").check();
    await lastAnswer(page).locator(".again").click();
    await finished(page);
    assert.equal(await page.locator(".turn").count(), 1);
    assert.match(await lastAnswer(page).locator(".who").textContent(), /small/);
    assert.equal(await lastAnswer(page).locator(".token.cloud[data-index]").count(), 0);
    if (mock) assert.deepEqual(mock.requests[1].messages, mock.requests[0].messages);
  }));

test("Shift+Enter makes a line, Enter sends, nothing is sent twice or empty", () =>
  withPage(async (page, mock) => {
    if (REAL) await shorten(page, 8);
    const prompt = page.locator("#prompt");
    await prompt.press("Enter");
    assert.equal(await page.locator(".turn").count(), 0);
    await prompt.fill("Say");
    const low = (await prompt.boundingBox()).height;
    await prompt.press("Shift+Enter");
    await prompt.pressSequentially("hello");
    assert.ok((await prompt.boundingBox()).height > low, "the field grows");
    await prompt.press("Enter");
    await prompt.fill("more");
    await prompt.press("Enter");
    await finished(page);
    assert.equal(await page.locator(".said").first().textContent(), "Say\nhello");
    if (mock) assert.ok(mock.requests.length >= 1);
  }));

test("copy gives the text of the answer", () =>
  withPage(
    async (page) => {
      if (REAL) await shorten(page);
      const answer = await ask(page, QUESTION);
      await answer.getByRole("button", { name: "Copy" }).click();
      await answer.getByRole("button", { name: "Copied" }).waitFor();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      assert.equal(copied, await answer.locator(".tokens").textContent());
    },
    { permissions: ["clipboard-read", "clipboard-write"] },
  ));

test("a new chat forgets the old one, also while it runs", () =>
  withPage(async (page, mock) => {
    if (REAL) await shorten(page);
    await ask(page, QUESTION);
    await send(page, LONG);
    await lastAnswer(page).locator(".token[data-index]").nth(2).waitFor();
    await page.locator("#new-chat").click();
    await finished(page);
    assert.equal(await page.locator(".turn").count(), 0);
    assert.ok(await page.locator("#welcome").isVisible());
    assert.ok(await page.locator("#figures .stack").isHidden());
    await ask(page, "Write three tips.");
    if (mock) assert.equal(mock.requests.at(-1).messages.length, 1);
  }));

test("an example is sent at a click", () =>
  withPage(async (page) => {
    if (REAL) await shorten(page);
    await page.locator(".example").first().click();
    await lastAnswer(page).locator(".token[data-index]").first().waitFor();
    await finished(page);
    assert.equal(await page.locator(".said").textContent(), QUESTION);
  }));

scripted("the view follows new words until somebody scrolls up", () =>
  withPage(
    async (page) => {
      const fromEnd = () => page.locator("#chat").evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight);
      await send(page, "mock:slow");
      const tokens = lastAnswer(page).locator(".token[data-index]");
      await page.waitForFunction(() => document.querySelector("#chat").scrollHeight > document.querySelector("#chat").clientHeight + 120);
      assert.ok((await fromEnd()) < 80);
      await page.locator("#chat").hover();
      await page.mouse.wheel(0, -2000);
      await page.locator("#latest").waitFor();
      assert.ok(await page.locator("#card").isHidden(), "text that moves under the pointer opens no card");
      const count = await tokens.count();
      await tokens.nth(count + 8).waitFor();
      assert.equal(await page.locator("#chat").evaluate((e) => e.scrollTop), 0);
      await page.locator("#latest").click();
      await page.locator("#latest").waitFor({ state: "hidden" });
      assert.ok((await fromEnd()) < 80);
      await page.locator("#stop").click();
      await finished(page);
    },
    { viewport: { width: 1000, height: 500 } },
  ));

scripted("thousands of tokens stay smooth", () =>
  withPage(async (page) => {
    await page.evaluate(() => {
      window.longest = 0;
      let last = performance.now();
      const watch = (now) => {
        window.longest = Math.max(window.longest, now - last);
        last = now;
        requestAnimationFrame(watch);
      };
      requestAnimationFrame(watch);
    });
    const answer = await ask(page, "mock:long 4000");
    assert.ok((await answer.locator(".token[data-index]").count()) > 4000);
    const longest = await page.evaluate(() => window.longest);
    // Two shared cores and a software renderer: far from a hang is what can be asked of them.
    assert.ok(longest < 500, `the longest frame took ${longest.toFixed(0)} ms`);
    console.log(`longest frame with 4000 tokens: ${longest.toFixed(0)} ms`);
    await page.locator("#prompt").fill("still quick");
  }));

scripted("text without a trace, empty answers and split characters are shown as they are", () =>
  withPage(async (page) => {
    const plain = await ask(page, "mock:plain");
    assert.ok((await plain.locator(".token.plain").count()) > 10);
    assert.match(await (await ask(page, "mock:empty")).textContent(), /The answer is empty\./);
    const wave = await ask(page, "mock:emoji");
    assert.equal(await wave.locator(".tokens").textContent(), "A wave 👋 here.");
  }));

scripted("the limit on the answer's length is sent, and said when it cuts", () =>
  withPage(async (page, mock) => {
    await shorten(page, 5);
    const answer = await ask(page, QUESTION);
    assert.equal(mock.requests[0].max_tokens, 5);
    assert.equal(await answer.locator(".token[data-index]").count(), 5);
    assert.match(await answer.textContent(), /Cut off at the longest answer allowed/);
  }));
