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

/** A file, tools that cannot be read, a laid out answer, a call with its field, and a state of the cloud. */
async function furnish(page, mock) {
  mock.about.cloud_state = "unreachable";
  await page.locator("#more").click();
  await page.locator("#tools").fill('[{"type": "function", "function": {"name": "get_weather"}}]');
  await page.locator("#more").click();
  await slide(page, 0.6);
  await ask(page, "mock:json");
  await page.waitForFunction(() => document.querySelector("#cloud-state").textContent !== "");
  await page.locator("#file").setInputFiles({ name: `${"long-name-".repeat(12)}.txt`, mimeType: "text/plain", buffer: Buffer.from("W".repeat(400)) });
  await page.locator("#attached").waitFor();
  await ask(page, "mock:call and a file");
  await page.locator(".said summary").last().click();
  await page.locator(".results").waitFor();
}

for (const colorScheme of ["light", "dark"]) {
  scripted(`axe finds nothing: ${colorScheme}, conversations, files, JSON, calls and budgets`, () =>
    withPage(
      async (page, mock) => {
        await furnish(page, mock);
        await page.locator("#file").setInputFiles({ name: "x.bin", mimeType: "text/plain", buffer: Buffer.from([0, 1]) });
        await page.locator("#attach-words").waitFor();
        await page.locator("#more").click();
        await page.locator("#tools").fill("{");
        await send(page, "Hello");
        assert.deepEqual(await violations(page), [], "answers, a refused file, tools that cannot be read");
        await page.locator("#tools").fill("");
        await page.locator("#chats").click();
        assert.deepEqual(await violations(page), [], "conversations");
        await page.locator("#chats-close").click();
        await page.getByRole("button", { name: "Compare" }).first().click();
        await page.locator("#ways input[value=budgets]").check();
        assert.deepEqual(await violations(page), [], "two budgets");
        await send(page, "mock:json");
        await finished(page);
        assert.deepEqual(await violations(page), [], "two budgets compared");
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

scripted("keyboard alone: conversations, a file, two budgets", () =>
  withPage(async (page) => {
    const at = () => page.evaluate(() => document.activeElement.id || document.activeElement.value || document.activeElement.textContent);
    await ask(page, QUESTION);
    await page.locator("#chats").focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Conversations" }).waitFor();
    // The focus stays in the dialog, and every control shows it.
    const seen = [];
    for (let i = 0; i < 8; i += 1) {
      assert.ok(await page.evaluate(() => document.activeElement.closest("#chats-dialog") !== null || document.activeElement === document.body), await at());
      seen.push(await at());
      await page.keyboard.press("Tab");
    }
    for (const wanted of [/^save-markdown$/, /^save-json$/, /^Why does ice float/, /^Delete$/, /^clear-chats$/, /^chats-close$/]) {
      assert.ok(seen.some((name) => wanted.test(name)), `no way to ${wanted}: ${seen.join(", ")}`);
    }
    await page.keyboard.press("Escape");
    assert.ok(await page.getByRole("dialog").isHidden());
    assert.equal(await at(), "chats", "the focus is back");
    await page.locator(".kept").waitFor({ state: "hidden" });
    // A file is chosen by its button.
    const chosen = page.waitForEvent("filechooser");
    await page.locator("#attach").focus();
    await page.keyboard.press("Enter");
    await (await chosen).setFiles({ name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("a") });
    await page.locator("#attached").waitFor();
    await page.locator("#detach").focus();
    await page.keyboard.press("Enter");
    assert.ok(await page.locator("#attached").isHidden());
    // The switch and both sliders.
    await page.locator("[data-goto=compare]").focus();
    await page.keyboard.press("Enter");
    await page.locator("#ways input[value=modes]").focus();
    await page.keyboard.press("ArrowRight");
    assert.ok(await page.locator("#ways input[value=budgets]").isChecked());
    await page.keyboard.press("Tab");
    assert.equal(await at(), "budget-first");
    const before = await page.locator("#budget-first-value").textContent();
    await page.keyboard.press("ArrowRight");
    assert.notEqual(await page.locator("#budget-first-value").textContent(), before);
    assert.equal(await page.locator("#budget-first").getAttribute("aria-valuetext"), await page.locator("#budget-first-value").textContent());
    await page.keyboard.press("Tab");
    assert.equal(await at(), "budget-second");
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

for (const [name, viewport] of [["360 wide", { width: 360, height: 740 }], ["320 wide", { width: 320, height: 568 }]]) {
  scripted(`no sideways scrolling in what is kept, attached, laid out or compared: ${name}`, () =>
    withPage(
      async (page, mock) => {
        await furnish(page, mock);
        assert.deepEqual(await sideways(page), [], "answers");
        await page.locator("#more").tap();
        assert.deepEqual(await sideways(page), [], "settings");
        await page.locator("#more").tap();
        await page.locator("#file").setInputFiles({ name: `${"w".repeat(90)}.txt`, mimeType: "text/plain", buffer: Buffer.from("text") });
        await page.locator("#attached").waitFor();
        assert.deepEqual(await sideways(page), [], "an attached file");
        await page.locator("#file").setInputFiles({ name: `${"w".repeat(90)}.bin`, mimeType: "text/plain", buffer: Buffer.from([0]) });
        await page.locator("#attach-words").waitFor();
        assert.deepEqual(await sideways(page), [], "a refused file");
        await page.locator("#new-chat").tap();
        await ask(page, "W".repeat(300));
        await page.locator("#chats").tap();
        assert.deepEqual(await sideways(page), [], "conversations");
        await page.locator("#chats-close").tap();
        await page.getByRole("button", { name: "Compare" }).first().tap();
        await page.locator("#ways input[value=budgets]").check();
        assert.deepEqual(await sideways(page), [], "two budgets");
        await send(page, "mock:json");
        await finished(page);
        assert.deepEqual(await sideways(page), [], "two budgets compared");
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
