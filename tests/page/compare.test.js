// Small, joint and large on one prompt.

import { after, test } from "node:test";
import assert from "node:assert/strict";
import { REAL, finished, quit, send, shorten, slide, withPage } from "./browser.js";

after(quit);
const scripted = REAL ? test.skip : test;
const QUESTION = "Why does ice float on water?";
const lane = (page, mode) => page.locator(`.lane[data-mode=${mode}]`);

async function compare(page, text) {
  await page.getByRole("button", { name: "Compare" }).first().click();
  await send(page, text);
}

test("three columns answer, each in its mode, with figures", () =>
  withPage(async (page, mock) => {
    if (REAL) await shorten(page, 16);
    await slide(page, 0.35);
    await compare(page, QUESTION);
    await finished(page);
    for (const mode of ["small", "joint", "large"]) {
      assert.ok((await lane(page, mode).locator(".token[data-index]").count()) > 0, mode);
      assert.match(await lane(page, mode).locator(".pairs").textContent(), /first token.*characters a second/);
      assert.ok((await lane(page, mode).locator(".split .part").count()) > 0);
    }
    assert.equal(await lane(page, "small").locator(".token.cloud[data-index]").count(), 0);
    assert.equal(await lane(page, "large").locator(".token.edge[data-index]").count(), 0);
    assert.equal(await page.locator(".asked").textContent(), QUESTION);
    const tops = await page.locator(".lane").evaluateAll((lanes) => lanes.map((l) => l.getBoundingClientRect().top));
    assert.ok(tops.every((top) => top === tops[0]), "side by side");
    if (mock) assert.deepEqual(mock.requests.map((r) => r.tandem), [
      { mode: "small", trace: true },
      { mode: "joint", trace: true, threshold: 0.35 },
      { mode: "large", trace: true },
    ]);
  }));

test("cards work in the comparison too, and the chat is untouched", () =>
  withPage(async (page) => {
    if (REAL) await shorten(page, 8);
    await compare(page, QUESTION);
    await finished(page);
    await lane(page, "large").locator(".token.cloud[data-index]").first().hover();
    await page.locator("#card").waitFor();
    assert.match(await page.locator("#card").textContent(), /In large mode the cloud writes everything\./);
    await page.getByRole("button", { name: "Chat", exact: true }).click();
    assert.ok(await page.locator("#welcome").isVisible());
    assert.ok(await page.locator("#mode").isVisible());
  }));

test("stop ends the running column and those behind it", () =>
  withPage(async (page, mock) => {
    await compare(page, REAL ? "Write a long story about a lake in winter." : "mock:slow");
    await lane(page, "small").locator(".token[data-index]").nth(3).waitFor();
    await page.locator("#stop").click();
    await finished(page);
    assert.match(await lane(page, "small").textContent(), /Stopped\. The text so far is kept\./);
    assert.match(await lane(page, "large").textContent(), /Stopped before the first token\./);
    if (mock) assert.equal(mock.requests.length, 1);
  }));

test("two budgets side by side", () =>
  withPage(async (page, mock) => {
    if (REAL) await shorten(page, 16);
    await page.getByRole("button", { name: "Compare" }).first().click();
    await page.locator("#ways input[value=budgets]").check();
    assert.equal(await page.locator("#compare-title").textContent(), "One prompt, two budgets");
    assert.ok(await page.locator("#bar").isHidden(), "each column has a slider of its own");
    await page.locator("#budget-first").fill("0.02");
    await page.locator("#budget-second").fill("0.4");
    assert.match(await page.locator("#budget-second-value").textContent(), /^40\s%$/);
    await send(page, QUESTION);
    await finished(page);
    const lanes = page.locator(".lane");
    assert.equal(await lanes.count(), 2);
    assert.match(await lanes.nth(0).locator("h3").first().textContent(), /First budget.*2\s%/);
    assert.match(await lanes.nth(1).locator("h3").first().textContent(), /Second budget.*40\s%/);
    const tops = await lanes.evaluateAll((all) => all.map((lane) => lane.getBoundingClientRect().top));
    assert.equal(tops[0], tops[1], "side by side");
    if (mock) {
      const clouds = (lane) => lane.locator(".token.cloud[data-index]").count();
      assert.ok((await clouds(lanes.nth(1))) > (await clouds(lanes.nth(0))));
      assert.deepEqual(mock.requests.map((r) => r.tandem), [
        { mode: "joint", trace: true, budget: 0.02 },
        { mode: "joint", trace: true, budget: 0.4 },
      ]);
    }
    // Back to the modes, with the slider that is theirs.
    await page.locator("#ways input[value=modes]").check();
    assert.equal(await lanes.count(), 3);
    assert.ok(await page.locator("#bar").isVisible());
  }));

scripted("one column's failure leaves the others, and can be tried again alone", () =>
  withPage(
    async (page, mock) => {
      await compare(page, "mock:busy compare");
      await finished(page);
      assert.match(await lane(page, "small").textContent(), /The server is busy\./);
      assert.ok((await lane(page, "joint").locator(".token[data-index]").count()) > 0);
      await lane(page, "small").getByRole("button", { name: /Try again/ }).click();
      await lane(page, "small").locator(".pairs").waitFor();
      assert.equal(mock.requests.length, 4);
      assert.equal(mock.requests[3].tandem.mode, "small");
    },
    { expected: /status of 503/ },
  ));
