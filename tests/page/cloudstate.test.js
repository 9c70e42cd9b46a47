// Whether the large model can be asked, as the page says it.

import { after, test } from "node:test";
import assert from "node:assert/strict";
import { REAL, ask, finished, lastAnswer, quit, send, withPage } from "./browser.js";

after(quit);
const scripted = REAL ? test.skip : test;
const state = (page) => page.locator("#cloud-state");
const says = (page, text) => page.waitForFunction((wanted) => document.querySelector("#cloud-state").textContent.includes(wanted), text);

scripted("while the large model is loaded the page says so, and stops when it is there", () =>
  withPage(
    async (page, mock) => {
      await says(page, "The large model is being loaded.");
      assert.equal(await state(page).getAttribute("role"), "status");
      mock.about.cloud_state = "ready";
      await page.waitForFunction(() => document.querySelector("#cloud-state").textContent === "");
      // Nothing is asked again and again behind that.
      let asked = 0;
      page.on("request", (request) => (asked += request.url().endsWith("/v1/tandem") ? 1 : 0));
      await page.waitForTimeout(2500);
      assert.equal(asked, 0);
    },
    { mock: { about: { cloud_state: "loading" } } },
  ));

scripted("a first question that loads the model says what it waits for", () =>
  withPage(
    async (page, mock) => {
      await says(page, "not loaded yet");
      await send(page, "mock:hang");
      mock.about.cloud_state = "loading";
      await says(page, "is being loaded");
      await page.keyboard.press("Escape");
      await finished(page);
      assert.match(await lastAnswer(page).textContent(), /Stopped before the first token/);
    },
    { mock: { about: { cloud_state: "not_loaded" } } },
  ));

scripted("a cloud that is gone is said after the answer that met it, and forgotten when it is back", () =>
  withPage(async (page, mock) => {
    await ask(page, "Hello");
    assert.equal(await state(page).textContent(), "");
    mock.about.cloud_state = "unreachable";
    await ask(page, "mock:down");
    await says(page, "The cloud could not be reached when it was last asked.");
    mock.about.cloud_state = "ready";
    await ask(page, "Hello again");
    await page.waitForFunction(() => document.querySelector("#cloud-state").textContent === "");
  }));

for (const [name, value] of [["a server that does not know yet", null], ["one that tells nothing", undefined], ["a word of a later version", "asleep"]]) {
  scripted(`nothing is said of ${name}`, () =>
    withPage(
      async (page) => {
        await page.waitForFunction(() => /SmolLM2/.test(document.querySelector("#pair").textContent));
        await ask(page, "Hello");
        assert.equal(await state(page).textContent(), "");
      },
      { mock: { about: { cloud_state: value } } },
    ));
}
