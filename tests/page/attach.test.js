// A text file that goes with a message.

import { after, test } from "node:test";
import assert from "node:assert/strict";
import { REAL, ask, finished, lastAnswer, quit, send, shorten, withPage } from "./browser.js";

after(quit);
const scripted = REAL ? test.skip : test;
const QUESTION = "What is in this file?";

/** Chooses a file as the browser's dialog would. */
const choose = (page, name, bytes) => page.locator("#file").setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(bytes) });

test("a text file goes with the next message, and only with that", () =>
  withPage(async (page, mock) => {
    if (REAL) await shorten(page, 8);
    await choose(page, "notes.md", "# Ice\n```\nfloats\n```\n");
    await page.locator("#attached").waitFor();
    assert.match(await page.locator("#attached").textContent(), /notes\.md, 20 bytes/);
    await ask(page, QUESTION);
    assert.ok(await page.locator("#attached").isHidden());
    const bubble = page.locator(".said").first();
    assert.match(await bubble.textContent(), /What is in this file\?notes\.md/);
    await bubble.locator("summary").click();
    assert.equal(await bubble.locator("pre").textContent(), "# Ice\n```\nfloats\n```");
    await ask(page, "And why?");
    if (!mock) return;
    const [first, , third] = mock.requests[1].messages;
    assert.equal(first.content, `${QUESTION}\n\nThe file notes.md:\n\`\`\`\`\n# Ice\n\`\`\`\nfloats\n\`\`\`\n\`\`\`\``);
    assert.deepEqual(mock.requests[0].messages, [first]);
    assert.equal(third.content, "And why?");
  }));

scripted("a file can go alone, be removed, and be put in place of another", () =>
  withPage(async (page, mock) => {
    await choose(page, "one.txt", "one");
    await page.locator("#attached").filter({ hasText: "one.txt" }).waitFor();
    await choose(page, "two.txt", "two");
    await page.locator("#attached").filter({ hasText: "two.txt" }).waitFor();
    await page.getByRole("button", { name: "Remove the attached file" }).click();
    assert.ok(await page.locator("#attached").isHidden());
    assert.equal(await page.evaluate(() => document.activeElement.id), "attach");
    await page.locator("#prompt").press("Enter");
    assert.equal(await page.locator(".turn").count(), 0);
    await choose(page, "two.txt", "two");
    await page.locator("#attached").waitFor();
    await page.locator("#prompt").press("Enter");
    await lastAnswer(page).locator(".facts").waitFor();
    await finished(page);
    assert.deepEqual(mock.requests.map((r) => r.messages[0].content), ["The file two.txt:\n```\ntwo\n```"]);
    // The conversation is called after it.
    await page.locator("#chats").click();
    assert.equal(await page.locator("#chats-list .name").textContent(), "two.txt");
  }));

scripted("what is no text, or too large for the context, is refused in words", () =>
  withPage(async (page, mock) => {
    const words = page.locator("#attach-words");
    await page.waitForFunction(() => /SmolLM2/.test(document.querySelector("#pair").textContent));
    await choose(page, "long.txt", "x".repeat(2048 * 3 + 1));
    await words.waitFor();
    assert.equal(await words.textContent(), "long.txt has 6.1 kB. The context of this server is 2048 tokens, so a file may have 6.1 kB: attach a part of it.");
    assert.equal(await words.getAttribute("role"), "alert");
    assert.ok(await page.locator("#attached").isHidden());
    await choose(page, "photo.png", [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0xff]);
    await page.waitForFunction(() => document.querySelector("#attach-words").textContent.startsWith("photo.png is not a text file in UTF-8"));
    await choose(page, "empty.txt", "");
    await page.waitForFunction(() => document.querySelector("#attach-words").textContent === "empty.txt is empty.");
    // A message without a file still goes, and the words go with it.
    await ask(page, "Hello");
    assert.equal(mock.requests[0].messages[0].content, "Hello");
    assert.ok(await words.isHidden());
  }));

scripted("a file's name and text are text", () =>
  withPage(async (page) => {
    await choose(page, "<b>x.txt", '<img src=x onerror="window.hacked = true">');
    await page.locator("#attached").waitFor();
    await send(page, "Read it.");
    await finished(page);
    await page.locator(".said summary").click();
    assert.match(await page.locator(".said").textContent(), /<b>x\.txt<img src=x/);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("main img, main b").count(), 0);
  }));

scripted("in a comparison every column gets the file", () =>
  withPage(async (page, mock) => {
    await page.getByRole("button", { name: "Compare" }).first().click();
    await choose(page, "notes.txt", "ice floats");
    await page.locator("#attached").waitFor();
    await send(page, QUESTION);
    await finished(page);
    assert.equal(await page.locator(".asked").textContent(), `${QUESTION}\nnotes.txt`);
    assert.equal(mock.requests.length, 3);
    for (const { messages } of mock.requests) assert.match(messages[0].content, /The file notes\.txt:\n```\nice floats\n```$/);
  }));
