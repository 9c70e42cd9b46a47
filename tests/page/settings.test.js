// Mode, slider and the rest: what is set holds for the next message.

import { after, test } from "node:test";
import assert from "node:assert/strict";
import { REAL, ask, finished, lastAnswer, quit, send, shorten, slide, withPage } from "./browser.js";

after(quit);
const scripted = REAL ? test.skip : test;
const QUESTION = "Why does ice float on water?";
const clouds = (answer) => answer.locator(".token.cloud[data-index]").count();

test("the slider's ends: none from the cloud at 0, some at 1", () =>
  withPage(async (page) => {
    if (REAL) await shorten(page, 24);
    await slide(page, 0);
    assert.equal(await clouds(await ask(page, QUESTION)), 0);
    await slide(page, 1);
    assert.ok((await clouds(await ask(page, QUESTION))) > 0);
  }));

scripted("the slider holds for the next message, not the running one", () =>
  withPage(async (page, mock) => {
    await slide(page, 0.1);
    await send(page, "mock:slow");
    await lastAnswer(page).locator(".token[data-index]").nth(3).waitFor();
    await slide(page, 0.6);
    assert.match(await page.locator("#bar-words").textContent(), /Next message: .* below 0\.60/);
    assert.match(await lastAnswer(page).locator(".who").textContent(), /threshold 0\.10/);
    await page.keyboard.press("Escape");
    await finished(page);
    const few = await clouds(await ask(page, QUESTION));
    assert.deepEqual(mock.requests.map((r) => r.tandem.threshold), [0.1, 0.6]);
    await slide(page, 0.9);
    assert.ok((await clouds(await ask(page, QUESTION))) > few, "a higher threshold asks more");
  }));

scripted("another pair of the server has its own models and budget, and its name goes with the request", () => {
  const cloud = (name) => ({ name, place: "remote" });
  const pair = { router: { name: "top1" }, routers: ["top1"], limits: { context: 2048, max_tokens: 256 } };
  const pairs = [
    { ...pair, name: "tandem", edge: { name: "Small" }, cloud: cloud("Large"), policy: { threshold: 0.2 } },
    { ...pair, name: "maths", edge: { name: "Counter" }, cloud: cloud("Reckoner"), policy: { budget: 0.25 }, cloud_state: "unreachable" },
  ];
  return withPage(
    async (page, mock) => {
      await page.locator("#more").click();
      await page.getByLabel("Pair of models").selectOption("maths");
      assert.match(await page.locator("#pair").textContent(), /^Counter on this device, Reckoner/);
      assert.match(await page.locator("#bar-value").textContent(), /^25\s%$/);
      await page.waitForFunction(() => document.querySelector("#cloud-state").textContent.includes("could not be reached"));
      const answer = await ask(page, QUESTION);
      assert.match(await answer.locator(".who").textContent(), /maths · joint · budget 25\s%/);
      await page.getByLabel("Pair of models").selectOption("tandem");
      await ask(page, QUESTION);
      assert.deepEqual(mock.requests.map((r) => r.model), ["maths-joint", "tandem-joint"]);
    },
    { mock: { about: { pairs } } },
  );
});

scripted("one pair is no choice", () =>
  withPage(async (page) => {
    await page.locator("#more").click();
    assert.ok(await page.locator("#pair-choice").isHidden());
  }));

test("a budget instead of a threshold", () =>
  withPage(async (page, mock) => {
    if (REAL) await shorten(page, 24);
    await page.locator("#bar-kind").selectOption("budget");
    await slide(page, 0.25);
    assert.match(await page.locator("#bar-value").textContent(), /^25\s%$/);
    const answer = await ask(page, QUESTION);
    assert.match(await answer.locator(".who").textContent(), /budget 25\s%/);
    assert.match(await page.locator("#figures").textContent(), /The dashed line is the budget, 25\s%/);
    if (mock) assert.deepEqual(mock.requests[0].tandem, { mode: "joint", trace: true, budget: 0.25 });
  }));

test("the mode switch: small sends nothing, large writes all in the cloud", () =>
  withPage(async (page, mock) => {
    if (REAL) await shorten(page, 12);
    await page.locator("input[value=small]").check();
    assert.ok(await page.locator("#bar").isDisabled());
    const small = await ask(page, QUESTION);
    assert.equal(await clouds(small), 0);
    assert.match(await page.locator("#figures .sent").textContent(), /Nothing\./);
    await page.locator("input[value=large]").check();
    const large = await ask(page, QUESTION);
    assert.equal(await large.locator(".token.edge[data-index]").count(), 0);
    assert.ok((await clouds(large)) > 0);
    if (mock) assert.deepEqual(mock.requests.map((r) => r.model), ["tandem-small", "tandem-large"]);
  }));

scripted("the server's own bar is taken over, finer than the slider's steps", () =>
  withPage(
    async (page, mock) => {
      await page.waitForFunction(() => document.querySelector("#bar-value").textContent === "0.99");
      await ask(page, QUESTION);
      assert.equal(mock.requests[0].tandem.threshold, 0.9893);
    },
    { mock: { about: { policy: { threshold: 0.9893 } } } },
  ));

scripted("router, failure policy and system message are sent when set, left out when not", () =>
  withPage(async (page, mock) => {
    await page.locator("#more").click();
    assert.equal(await page.locator("#more").getAttribute("aria-expanded"), "true");
    await page.locator("#router").selectOption("margin");
    await page.locator("#on-cloud-error").selectOption("wait");
    await page.locator("#system").fill("Be brief.");
    await ask(page, QUESTION);
    assert.deepEqual(mock.requests[0].tandem, { mode: "joint", trace: true, threshold: 0.2, router: "margin", on_cloud_error: "wait" });
    assert.deepEqual(mock.requests[0].messages[0], { role: "system", content: "Be brief." });
  }));

scripted("without a cloud only small can be chosen", () =>
  withPage(
    async (page) => {
      await page.waitForFunction(() => document.querySelector("input[value=joint]").disabled);
      assert.ok(await page.locator("input[value=small]").isChecked());
      assert.match(await page.locator("#pair").textContent(), /no cloud/);
    },
    { mock: { about: { cloud: { name: "", place: "none" } } } },
  ));

test("the theme follows the system, and the button overrules it for good", () =>
  withPage(
    async (page) => {
      const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const dark = await ground();
      assert.equal(dark, "rgb(20, 23, 27)");
      await page.getByRole("button", { name: "Switch to the light theme" }).click();
      const light = await ground();
      assert.equal(light, "rgb(250, 249, 246)");
      await page.reload();
      assert.equal(await ground(), light);
      await page.getByRole("button", { name: "Switch to the dark theme" }).click();
      assert.equal(await ground(), dark);
    },
    { colorScheme: "dark" },
  ));
