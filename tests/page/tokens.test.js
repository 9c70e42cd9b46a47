// Cards and figures: why each token stands there, what it cost, what left the device.

import { after, test } from "node:test";
import assert from "node:assert/strict";
import { REAL, ask, quit, shorten, slide, withPage } from "./browser.js";

after(quit);
const scripted = REAL ? test.skip : test;
const QUESTION = "Why does ice float on water?";
const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };

/** An answer with tokens of both kinds, by the mock or by models. */
async function answered(page) {
  if (REAL) await shorten(page);
  await slide(page, REAL ? 0.7 : 0.35);
  return ask(page, QUESTION);
}

test("pointing at a token of the cloud opens its card", () =>
  withPage(async (page) => {
    const answer = await answered(page);
    await answer.locator(".token.cloud[data-index]").first().hover();
    const card = page.locator("#card");
    await card.waitFor();
    const text = await card.textContent();
    assert.match(text, /From the cloud/);
    assert.match(text, /Trust 0\.\d+ is below the threshold 0\.\d+, so the cloud was asked\./);
    assert.match(text, /Score/);
    assert.match(text, /The device's own guesses/);
    assert.ok((await card.locator(".guesses li").count()) >= 2);
    assert.match(text, /Time.*: [\d.]+ m?s/);
    assert.match(text, /cloud writes/);
    assert.match(text, /Sent for it/);
    // The way to the card does not close it; leaving it does.
    await card.hover();
    await page.waitForTimeout(300);
    assert.ok(await card.isVisible());
    await page.locator("h1").hover();
    await card.waitFor({ state: "hidden" });
  }));

test("a card of the device's token says why it was kept, inside the window and off its token", () =>
  withPage(async (page) => {
    const answer = await answered(page);
    for (const token of [answer.locator(".token.edge[data-index]").first(), answer.locator(".token.edge[data-index]").last()]) {
      await token.hover();
      await page.locator("#card").waitFor();
      await page.waitForTimeout(150);
      assert.match(await page.locator("#card").textContent(), /From this device/);
      const [card, box] = [await page.locator("#card").boundingBox(), await token.boundingBox()];
      const { width, height } = page.viewportSize();
      assert.ok(card.x >= 0 && card.y >= 0 && card.x + card.width <= width && card.y + card.height <= height, "inside");
      assert.ok(card.y >= box.y + box.height || card.y + card.height <= box.y, "not over its token");
      await page.locator("h1").hover();
      await page.locator("#card").waitFor({ state: "hidden" });
    }
  }));

test("a tap opens a card that stays until it is closed", () =>
  withPage(async (page) => {
    const answer = await answered(page);
    await answer.locator(".token.cloud[data-index]").last().tap();
    const card = page.locator("#card");
    await card.waitFor();
    await page.waitForTimeout(400);
    assert.ok(await card.isVisible());
    await card.getByRole("button", { name: "Close" }).tap();
    await card.waitFor({ state: "hidden" });
    await answer.locator(".token.cloud[data-index]").last().tap();
    await card.waitFor();
    await page.locator("h1").tap();
    await card.waitFor({ state: "hidden" });
  }, PHONE));

test("arrow keys step through the tokens, and say each card", () =>
  withPage(async (page) => {
    const answer = await answered(page);
    await answer.locator(".tokens").focus();
    await page.keyboard.press("ArrowRight");
    const current = answer.locator(".token.current");
    assert.equal(await current.getAttribute("data-index"), "0");
    await page.keyboard.press("ArrowRight");
    assert.equal(await current.getAttribute("data-index"), "1");
    await page.keyboard.press("ArrowLeft");
    assert.equal(await current.getAttribute("data-index"), "0");
    await page.keyboard.press("ArrowDown");
    assert.match(await current.getAttribute("class"), /cloud|fallback/);
    assert.match(await page.locator("#card").textContent(), /From the cloud/);
    assert.match(await page.locator("#hint").textContent(), /: From the cloud\. Trust/);
    await page.keyboard.press("End");
    const last = answer.locator(".token[data-index]").last();
    assert.match(await last.getAttribute("class"), /current/);
    await page.keyboard.press("Escape");
    assert.ok(await page.locator("#card").isHidden());
    await page.keyboard.press("Home");
    await page.locator("#card").waitFor();
    await page.keyboard.press("Tab");
    assert.ok(await page.locator("#card").isHidden());
  }));

test("figures: share, time between tokens, split, each with a sentence", () =>
  withPage(async (page) => {
    const answer = await answered(page);
    const panel = page.locator("#figures");
    const count = await answer.locator(".token[data-index]").count();
    const cloud = await answer.locator(".token.cloud[data-index]").count();
    const share = panel.locator(".chart.share");
    if (!REAL) assert.match(await share.getAttribute("aria-label"), new RegExp(`^${cloud} of ${count} tokens from the cloud: 9\\.3\\s%\\.$`));
    else assert.match(await share.getAttribute("aria-label"), /^\d+ of \d+ tokens from the cloud: [\d.]+\s%\.$/);
    assert.ok((await share.locator(".trace").getAttribute("d")).length > 20);
    assert.match(await panel.locator(".chart.gaps").getAttribute("aria-label"), /^The first token came after .+; then half of them within .+; the longest wait was .+\.$/);
    assert.ok((await panel.locator(".bars.cloud").count()) === 1);
    assert.match(await panel.locator(".split").getAttribute("aria-label"), /in all: (device reads .+)?device writes .+cloud writes/);
    assert.equal(await panel.locator(".split .part").count(), await panel.locator(".parts li").count());
  }));

scripted("figures move while the answer runs", () =>
  withPage(async (page) => {
    await page.locator("#prompt").fill("mock:slow");
    await page.locator("#prompt").press("Enter");
    const label = () => page.locator(".chart.share").getAttribute("aria-label");
    await page.locator(".chart.share .trace").waitFor();
    const first = await label();
    await page.waitForTimeout(500);
    assert.notEqual(await label(), first);
    await page.keyboard.press("Escape");
  }));

test("what left this device: the bytes and the very text", () =>
  withPage(async (page) => {
    const answer = await answered(page);
    const sent = page.locator("#figures .sent");
    const inside = /^Nothing: the large model runs inside this program\. It was given the text below in \d+ asks?\./;
    const over = /^[\d.]+ (bytes|kB) in \d+ asks?(, [\d.]+ (bytes|kB) of it the text below)?\./;
    assert.match(await sent.locator(".sent-words").textContent(), REAL ? inside : over);
    const asks = await sent.locator("pre").allTextContents();
    assert.ok(asks.length > 0);
    assert.ok(asks[0].includes(QUESTION), "the first ask carries the question");
    if (REAL) return;
    assert.equal(asks.length, 7);
    assert.equal(asks[0], `user: ${QUESTION}\nassistant:Ice floats`);
    assert.match(await answer.textContent(), /374 bytes sent/);
    assert.match(await sent.locator(".sent-words").textContent(), /^374 bytes in 7 asks\.$/);
  }));

test("the figures of an earlier answer can be brought back", () =>
  withPage(async (page) => {
    const first = await answered(page);
    await page.locator("input[value=small]").check();
    await ask(page, "And what should I pack?");
    assert.match(await page.locator(".figures-head").textContent(), /Answer 2 · small/);
    await page.locator(".turn").first().getByRole("button", { name: "Figures" }).click();
    await page.waitForFunction(() => /Answer 1 · joint/.test(document.querySelector(".figures-head").textContent));
    assert.ok(await first.isVisible());
  }));

scripted("fallback is told in tint, card and remark", () =>
  withPage(async (page) => {
    await slide(page, 0.35);
    const answer = await ask(page, "mock:down");
    const token = answer.locator(".token.fallback[data-index]").first();
    assert.match(await token.evaluate((e) => getComputedStyle(e).textDecorationStyle), /wavy/);
    assert.match(await answer.textContent(), /The cloud could not be reached: the cloud did not answer within 10 s\. The device wrote 7 tokens instead\./);
    await token.hover();
    await page.locator("#card").waitFor();
    assert.match(await page.locator("#card").textContent(), /could not be reached, so the device's own token was kept/);
  }));

scripted("what a model writes is text, wherever it is shown", () =>
  withPage(async (page) => {
    await slide(page, 0.6);
    const answer = await ask(page, "mock:html");
    assert.match(await answer.locator(".tokens").textContent(), /<script>window\.hacked = true<\/script>/);
    await answer.locator(".token.cloud[data-index]").last().hover();
    await page.locator("#card").waitFor();
    assert.match(await page.locator("#card").textContent(), /<b␣id="guess0">/);
    // A user's markup, and a server's error, are text as well.
    await ask(page, '<img src=x onerror="window.hacked = true">');
    await ask(page, "mock:refuse");
    assert.match(await page.locator(".problem").textContent(), /<b>bold<\/b>/);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    for (const tag of ["img", "b", "script", "a"]) {
      assert.equal(await page.locator(`main ${tag}, #card ${tag}, #said ${tag}, #hint ${tag}`).count(), 0, tag);
    }
  }, { expected: /status of 400/ }));
