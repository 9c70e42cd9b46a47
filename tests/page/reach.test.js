// For everybody: keyboard alone, screen readers, small windows, both themes.

import { after, test } from "node:test";
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { REAL, ask, finished, lastAnswer, quit, send, shorten, slide, withPage } from "./browser.js";

after(quit);
const scripted = REAL ? test.skip : test;
const QUESTION = "Why does ice float on water?";
const axeSource = await readFile(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** What axe finds wrong with the page as it stands. */
async function violations(page) {
  // Through the debugger: the page's own policy would refuse it.
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => `${n.html.slice(0, 120)} ${n.any[0]?.message ?? ""}`).join(" | ")}`);
}

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing: ${colorScheme}, chat with a card, then comparison`, () =>
    withPage(
      async (page) => {
        if (REAL) await shorten(page, 16);
        assert.deepEqual(await violations(page), [], "welcome");
        await slide(page, 0.35);
        await ask(page, QUESTION);
        await lastAnswer(page).locator(".token[data-index]").nth(2).click();
        await page.locator("#more").click();
        assert.deepEqual(await violations(page), [], "chat");
        await page.getByRole("button", { name: "Compare" }).first().click();
        await send(page, QUESTION);
        await finished(page);
        assert.deepEqual(await violations(page), [], "comparison");
      },
      { colorScheme },
    ));
}

scripted("axe finds nothing in problems, remarks and the key's dialog", () =>
  withPage(
    async (page) => {
      assert.deepEqual(await violations(page), [], "dialog");
      await page.getByRole("button", { name: "Cancel" }).click();
      assert.deepEqual(await violations(page), [], "no key");
    },
    { mock: { key: "k" }, expected: /status of 401/, colorScheme: "dark" },
  ));

test("keyboard alone: settings, message, stop, tokens, copy", () =>
  withPage(async (page) => {
    if (REAL) await shorten(page, 60);
    const at = () => page.evaluate(() => document.activeElement.id || document.activeElement.value || document.activeElement.textContent);
    const visible = () =>
      page.evaluate(() => {
        const on = document.activeElement.matches("[type=radio]") ? document.activeElement.nextElementSibling : document.activeElement;
        return getComputedStyle(on).outlineStyle !== "none";
      });
    const tabTo = async (wanted) => {
      for (let i = 0; i < 60; i += 1) {
        await page.keyboard.press("Tab");
        assert.ok(await visible(), `focus is visible on ${await at()}`);
        if (wanted.test(await at())) return;
      }
      assert.fail(`no way to ${wanted}`);
    };
    await page.locator("#theme").focus();
    await tabTo(/^joint$/);
    await page.keyboard.press("ArrowLeft");
    assert.ok(await page.locator("input[value=small]").isChecked());
    await page.keyboard.press("ArrowRight");
    await tabTo(/^bar$/);
    const before = await page.locator("#bar-value").textContent();
    await page.keyboard.press("ArrowRight");
    assert.notEqual(await page.locator("#bar-value").textContent(), before);
    await tabTo(/^prompt$/);
    await page.keyboard.type(REAL ? "Write a long story." : "mock:slow");
    await page.keyboard.press("Enter");
    await lastAnswer(page).locator(".token[data-index]").nth(4).waitFor();
    await page.keyboard.press("Escape");
    await finished(page);
    assert.equal(await at(), "prompt");
    await page.locator("#chat").focus();
    await page.keyboard.press("Tab");
    await page.keyboard.press("ArrowRight");
    await page.locator("#card").waitFor();
    await tabTo(/^Copy$/);
  }));

scripted("a screen reader hears sentences, then the end, not each token", () =>
  withPage(async (page) => {
    await page.evaluate(() => {
      window.heard = [];
      new MutationObserver((changes) => {
        for (const change of changes) for (const node of change.addedNodes) window.heard.push(node.textContent);
      }).observe(document.querySelector("#said"), { childList: true });
    });
    await ask(page, QUESTION);
    const heard = await page.evaluate(() => window.heard);
    assert.equal(heard[0], "Ice floats because it is less dense than liquid water.");
    assert.match(heard.at(-1), /their solid form sinks\. End of the answer: 75 tokens, 1\.3\s% from the cloud\.$/);
    assert.ok(heard.length <= 6, `heard ${heard.length} times`);
    assert.equal(await page.locator("#said").getAttribute("aria-live"), "polite");
    // The conversation itself is not live: it would be read twice.
    assert.equal(await page.locator("#chat [aria-live], #chat [role=log]").count(), 0);
  }));

/** Whatever sticks out of the window sideways. */
const sideways = (page) =>
  page.evaluate(() => {
    const wide = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > wide) return ["the page itself"];
    return [...document.querySelectorAll("body *")]
      .filter((e) => !e.closest(".hidden, .skip, svg, [hidden]") && e.getClientRects().length > 0 && (e.getBoundingClientRect().right > wide + 0.5 || e.getBoundingClientRect().left < -0.5))
      .map((e) => e.outerHTML.slice(0, 80));
  });

for (const [name, viewport] of [["360 wide", { width: 360, height: 740 }], ["320 wide", { width: 320, height: 568 }], ["a phone lying", { width: 740, height: 360 }], ["a tablet", { width: 820, height: 1100 }]]) {
  test(`no sideways scrolling: ${name}`, () =>
    withPage(
      async (page) => {
        if (REAL) await shorten(page, 12);
        assert.deepEqual(await sideways(page), [], "welcome");
        await slide(page, 0.4);
        await ask(page, REAL ? QUESTION : "mock:unbroken");
        await ask(page, "W".repeat(300));
        assert.deepEqual(await sideways(page), [], "chat");
        await lastAnswer(page).locator(".token[data-index]").first().tap();
        await page.locator("#card").waitFor();
        assert.deepEqual(await sideways(page), [], "card");
        await page.locator("#card").getByRole("button", { name: "Close" }).tap();
        await page.getByRole("button", { name: "Figures", exact: true }).first().tap();
        assert.ok(await page.locator("#figures .chart").first().isVisible());
        assert.deepEqual(await sideways(page), [], "figures");
        await page.getByRole("button", { name: "Compare" }).first().tap();
        await send(page, QUESTION);
        await finished(page);
        assert.deepEqual(await sideways(page), [], "comparison");
        const lefts = await page.locator(".lane").evaluateAll((lanes) => lanes.map((l) => l.getBoundingClientRect().left));
        assert.ok(lefts.every((left) => left === lefts[0]), "columns are stacked");
        await page.locator("#more").tap();
        assert.deepEqual(await sideways(page), [], "settings");
      },
      { viewport, hasTouch: true, isMobile: true },
    ));
}

scripted("with reduced motion nothing moves by itself", () =>
  withPage(
    async (page) => {
      await send(page, "mock:hang");
      const thinking = page.locator(".thinking");
      assert.equal(await thinking.evaluate((e) => getComputedStyle(e, "::after").animationName), "none");
      await page.keyboard.press("Escape");
      await finished(page);
    },
    { reducedMotion: "reduce" },
  ));

test("the page asks nobody else, and its policy forbids it", () =>
  withPage(async (page) => {
    const policy = await page.evaluate(async () => (await fetch("./")).headers.get("content-security-policy"));
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /unsafe-inline|unsafe-eval/);
  }));
