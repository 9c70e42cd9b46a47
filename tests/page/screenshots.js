// Takes pictures of the page, to be looked at: `node screenshots.js FOLDER`.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { ask, quit, send, slide, withPage } from "./browser.js";

const folder = process.argv[2] ?? "screenshots";
await mkdir(folder, { recursive: true });
const QUESTION = "Why does ice float on water?";
const phone = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true };
const shot = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });

async function chat(page) {
  await slide(page, 0.35);
  await ask(page, QUESTION);
  await ask(page, "And what should I pack for a tour?");
  await page.waitForTimeout(200);
}

const scenes = {
  welcome: [{}, async () => {}],
  "desktop-light": [{}, chat],
  "desktop-dark": [{ colorScheme: "dark" }, chat],
  card: [{}, async (page) => {
    await chat(page);
    await page.locator(".token.cloud[data-index]").last().hover();
    await page.locator("#card").waitFor();
  }],
  "card-dark": [{ colorScheme: "dark" }, async (page) => {
    await chat(page);
    await page.locator(".token.edge[data-index]").nth(6).hover();
    await page.locator("#card").waitFor();
  }],
  streaming: [{}, async (page) => {
    await send(page, "mock:slow");
    await page.waitForTimeout(2500);
  }],
  long: [{}, (page) => ask(page, "mock:long 1200")],
  compare: [{ viewport: { width: 1280, height: 1000 } }, async (page) => {
    await page.locator("[data-goto=compare]").click();
    await slide(page, 0.35);
    await send(page, QUESTION);
    await page.locator(".lane[data-mode=large] .pairs").waitFor();
  }],
  "problem": [{}, async (page) => {
    await ask(page, QUESTION);
    await ask(page, "mock:busy");
    await ask(page, "mock:break");
    await ask(page, "mock:down");
  }],
  more: [{}, (page) => page.locator("#more").click()],
  json: [{}, async (page) => {
    await slide(page, 0.6);
    await ask(page, "mock:json");
  }],
  conversations: [{}, async (page) => {
    await chat(page);
    await page.locator("#chats").click();
  }],
  budgets: [{ viewport: { width: 1280, height: 1000 } }, async (page) => {
    await page.locator("[data-goto=compare]").click();
    await page.locator("#ways input[value=budgets]").check();
    await ask(page, QUESTION);
  }],
  key: [{ mock: { key: "k" } }, (page) => page.locator("#key-dialog").waitFor()],
  "phone-welcome": [phone, async () => {}],
  phone: [phone, chat],
  "phone-card": [phone, async (page) => {
    await chat(page);
    await page.locator(".token.cloud[data-index]").last().tap();
  }],
  "phone-figures": [phone, async (page) => {
    await chat(page);
    await page.locator("[data-goto=figures]").tap();
  }],
  "phone-budgets": [phone, async (page) => {
    await page.locator("[data-goto=compare]").tap();
    await page.locator("#ways input[value=budgets]").check();
  }],
  "phone-more": [{ ...phone, mock: { about: { cloud_state: "loading" } } }, async (page) => {
    await page.locator("#file").setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("notes") });
    await page.locator("#more").tap();
  }],
  "phone-conversations": [{ ...phone, colorScheme: "dark" }, async (page) => {
    await chat(page);
    await page.locator("#chats").tap();
  }],
  "phone-compare": [{ ...phone, colorScheme: "dark" }, async (page) => {
    await page.locator("[data-goto=compare]").tap();
    await ask(page, QUESTION);
  }],
};

for (const [name, [options, scene]] of Object.entries(scenes)) {
  if (process.argv[3] && !process.argv.slice(3).includes(name)) continue;
  await withPage(
    async (page) => {
      await page.waitForTimeout(200);
      await scene(page);
      await shot(page, name);
    },
    { expected: /Failed to load resource/, ...options },
  );
}
await quit();
