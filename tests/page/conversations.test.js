// Conversations that are kept in the browser, and saved as files.

import { after, test } from "node:test";
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { REAL, ask, finished, lastAnswer, quit, send, shorten, slide, withPage } from "./browser.js";
import { textFor } from "./answers.js";

after(quit);
const scripted = REAL ? test.skip : test;
const QUESTION = "Why does ice float on water?";
const SECOND = "And what should I pack?";

const list = (page) => page.locator("#chats-list li");
const open = (page) => page.locator("#chats").click();
const close = (page) => page.locator("#chats-close").click();

/** Sources and text of the tokens of an answer. */
const tokens = (answer) => answer.locator(".token[data-index]").evaluateAll((all) => all.map((span) => [span.className.split(" ")[1], span.textContent]));

/** The text of the file that a button saves, and its name. */
async function saved(page, button) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator(button).click()]);
  return { name: download.suggestedFilename(), text: await readFile(await download.path(), "utf8") };
}

test("a conversation is there again after the page was left, with who wrote what", () =>
  withPage(async (page, mock) => {
    if (REAL) await shorten(page, 16);
    await slide(page, REAL ? 0.7 : 0.35);
    const before = await tokens(await ask(page, QUESTION));
    await page.reload();
    assert.equal(await page.locator(".turn").count(), 0, "a page begins with a new conversation");
    await open(page);
    assert.equal(await list(page).count(), 1);
    assert.match(await list(page).textContent(), /Why does ice float on water\?1 message · /);
    await list(page).locator(".kept").click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    await lastAnswer(page).locator(".token[data-index]").first().waitFor();
    assert.deepEqual(await tokens(lastAnswer(page)), before);
    assert.equal(await page.locator(".said").textContent(), QUESTION);
    await lastAnswer(page).locator(".token.cloud[data-index]").first().hover();
    await page.locator("#card").waitFor();
    assert.match(await page.locator("#card").textContent(), /Trust 0\.\d+ is below the threshold 0\.\d+, so the cloud was asked\..*Sent for it/s);
    assert.match(await page.locator("#figures").textContent(), /Answer 1 · joint/);
    assert.ok((await page.locator("#figures .sent pre").count()) > 0, "what left the device is kept too");
    // It goes on where it was.
    if (REAL) await shorten(page, 8);
    await ask(page, SECOND);
    assert.equal(await page.locator(".turn").count(), 2);
    if (!mock) return;
    assert.deepEqual(mock.requests.at(-1).messages, [
      { role: "user", content: QUESTION },
      { role: "assistant", content: textFor(QUESTION) },
      { role: "user", content: SECOND },
    ]);
    await open(page);
    assert.equal(await list(page).count(), 1, "and is still one conversation");
    assert.match(await list(page).textContent(), /shown now · 2 messages/);
  }));

scripted("the list has the latest first; each can be shown, and deleted for good", () =>
  withPage(async (page) => {
    await ask(page, QUESTION);
    await page.locator("#new-chat").click();
    await ask(page, SECOND);
    await open(page);
    assert.deepEqual(await list(page).locator(".name").allTextContents(), [SECOND, QUESTION]);
    assert.equal(await page.locator(".kept[aria-current]").count(), 1);
    await list(page).nth(1).locator(".kept").click();
    assert.equal(await page.locator(".said").textContent(), QUESTION);
    // Deleting the one that is shown ends it: the next answer must not bring it back.
    await open(page);
    await page.getByRole("button", { name: `Delete: ${QUESTION}` }).click();
    assert.deepEqual(await list(page).locator(".name").allTextContents(), [SECOND]);
    assert.equal(await page.evaluate(() => document.activeElement.className), "quiet kept", "the focus stays in the list");
    await close(page);
    assert.equal(await page.locator(".turn").count(), 0);
    await ask(page, "Write three tips.");
    await open(page);
    assert.deepEqual(await list(page).locator(".name").allTextContents(), ["Write three tips.", SECOND]);
    // All at once, after a second press.
    await page.locator("#clear-chats").click();
    assert.equal(await list(page).count(), 2);
    await page.getByRole("button", { name: "Really delete all?" }).click();
    assert.equal(await list(page).count(), 0);
    assert.match(await page.locator("#chats-words").textContent(), /^None yet\. Kept in this browser only\./);
    assert.equal(await page.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith("tandem-chat")).length), 0);
    await close(page);
    assert.equal(await page.locator(".turn").count(), 0);
  }));

scripted("an answer that runs is kept when the page is left, and is asked for again", () =>
  withPage(async (page, mock) => {
    await send(page, "mock:slow");
    await lastAnswer(page).locator(".token[data-index]").nth(4).waitFor();
    await page.reload();
    await open(page);
    await list(page).locator(".kept").click();
    await lastAnswer(page).locator(".token[data-index]").first().waitFor();
    assert.match(await lastAnswer(page).textContent(), /slow0 slow1.*(Stopped\. The text so far is kept|The answer broke off)\./s);
    await lastAnswer(page).getByRole("button", { name: "Ask again" }).click();
    await lastAnswer(page).locator(".token[data-index]").nth(2).waitFor();
    assert.equal(mock.requests.length, 2);
    // Another one can be opened meanwhile: this one stops and is kept.
    await page.locator("#new-chat").click();
    await finished(page);
    await open(page);
    assert.equal(await list(page).count(), 1);
  }));

for (const [name, refuse] of [
  ["switched off", () => Object.defineProperty(window, "localStorage", { get: () => { throw new DOMException("denied", "SecurityError"); } })],
  ["full", () => { Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); }; }],
]) {
  scripted(`storage that is ${name}: the page works, keeps nothing and says so`, () =>
    withPage(async (page) => {
      await page.addInitScript(refuse);
      await page.reload();
      await ask(page, QUESTION);
      await open(page);
      assert.equal(await list(page).count(), 0);
      assert.match(await page.locator("#chats-words").textContent(), /does not let the page keep anything: the conversation ends with the tab\. You can save it as a file\./);
      assert.match((await saved(page, "#save-markdown")).text, /Ice floats/);
      await close(page);
      await ask(page, SECOND);
      assert.equal(await page.locator(".turn").count(), 2);
    }));
}

scripted("what cannot be read any more is said and removed", () =>
  withPage(async (page) => {
    await ask(page, QUESTION);
    await page.evaluate(() => {
      const key = Object.keys(localStorage).find((each) => each.startsWith("tandem-chat-"));
      localStorage.setItem(key, '{"version": 1, "turns": [{"text": "x", "answer": {}}]}');
    });
    // Leaving the page keeps it whole again, so what was spoilt is put back behind that.
    const kept = await page.evaluate(() => JSON.stringify(localStorage));
    await page.addInitScript((text) => {
      for (const [key, value] of Object.entries(JSON.parse(text))) localStorage.setItem(key, value);
    }, kept);
    await page.reload();
    await open(page);
    await list(page).locator(".kept").click();
    assert.match(await page.locator("#chats-words").textContent(), /could not be read any more, so it was removed/);
    assert.equal(await list(page).count(), 0);
  }));

scripted("what is kept is shown as text, never as markup", () =>
  withPage(async (page) => {
    const message = '<img src=x onerror="window.hacked = true"> say it';
    await ask(page, message);
    await ask(page, "mock:html");
    await page.reload();
    await open(page);
    assert.equal(await list(page).locator(".name").textContent(), message);
    await list(page).locator(".kept").click();
    await lastAnswer(page).locator(".token[data-index]").first().waitFor();
    assert.match(await lastAnswer(page).locator(".tokens").textContent(), /<script>window\.hacked = true<\/script>/);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    for (const tag of ["img", "b", "script", "a"]) assert.equal(await page.locator(`main ${tag}, dialog ${tag}`).count(), 0, tag);
  }));

scripted("a conversation is saved as Markdown and as JSON, with who wrote each token", () =>
  withPage(async (page) => {
    await open(page);
    assert.ok(await page.locator("#save-markdown").isDisabled(), "nothing to save yet");
    await close(page);
    await slide(page, 0.35);
    await ask(page, QUESTION);
    await ask(page, SECOND);
    await open(page);
    const markdown = await saved(page, "#save-markdown");
    assert.equal(markdown.name, "why-does-ice-float-on-water.md");
    assert.match(markdown.text, /^# Why does ice float on water\?\n\nSmolLM2-135M-Instruct on this device, Qwen2\.5-Coder-1\.5B-Instruct in the cloud\./);
    assert.ok(markdown.text.includes(textFor(QUESTION)) && markdown.text.includes(textFor(SECOND)));
    assert.match(markdown.text, /75 tokens; 7 from the cloud \(9\.3\s%\)/);
    assert.equal(markdown.text.match(/^\| \d+ \| .* \| cloud \| 0\.\d+ \|$/gm).length >= 7, true);
    const { name, text } = await saved(page, "#save-json");
    assert.equal(name, "why-does-ice-float-on-water.json");
    const { format, server, turns } = JSON.parse(text);
    assert.deepEqual([format, server.edge.name, turns.length], ["tandem-conversation", "SmolLM2-135M-Instruct", 2]);
    const [{ message, answer }] = turns;
    assert.equal(message.content, QUESTION);
    assert.equal(answer.tokens.map((token) => token.text).join(""), textFor(QUESTION));
    assert.equal(answer.tokens.filter((token) => token.source === "cloud").length, 7);
    assert.ok(answer.tokens.every((token) => typeof token.score === "number"));
    assert.deepEqual([answer.choice.mode, answer.choice.threshold], ["joint", 0.35]);
  }, { acceptDownloads: true }));
