// A browser for the tests, and what nearly every test does with the page.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { start } from "./mock.js";

/** A real server to test against, instead of the mock. */
export const REAL = process.env.TANDEM_URL ? new URL(process.env.TANDEM_URL).href : null;
/** Real models take their time. */
export const PATIENCE = REAL ? 120_000 : 10_000;

let browser = null;

export async function launch() {
  browser ??= await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  return browser;
}

export async function quit() {
  await browser?.close();
  browser = null;
}

/**
 * Runs `work` with a fresh page, and a fresh mock unless a real server is under test. Fails when
 * the page logged an error or threw one; `expected` names what the browser itself logs of a fault
 * that the test is about.
 */
export async function withPage(work, { mock: options = {}, expected = null, at = REAL, ...context } = {}) {
  const mock = at ? null : await start(options);
  const held = await (await launch()).newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "light", ...context });
  const page = await held.newPage();
  const complaints = [];
  page.setDefaultTimeout(PATIENCE);
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !expected?.test(message.text())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    // What the page saves as a file comes from its own memory.
    if (!request.url().replace(/^blob:/, "").startsWith(mock?.url ?? at)) complaints.push(`a request elsewhere: ${request.url()}`);
  });
  try {
    await page.goto(mock?.url ?? at);
    await work(page, mock);
    assert.deepEqual(complaints, [], "the console stays clean");
  } finally {
    await held.close();
    await mock?.close();
  }
}

/** The last answer of the chat. */
export const lastAnswer = (page) => page.locator(".turn").last().locator(".answer");

/** Writes and sends with Enter. */
export async function send(page, text) {
  await page.locator("#prompt").fill(text);
  await page.locator("#prompt").press("Enter");
}

/** Waits until nothing runs any more, and all of it is painted: the page paints once a frame. */
export async function finished(page) {
  await page.locator("#stop").waitFor({ state: "hidden" });
  await page.locator("#send").waitFor({ state: "visible" });
  await page.evaluate(() => new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted))));
}

/** Sends, waits for the end, gives the last answer's element. */
export async function ask(page, text) {
  await send(page, text);
  await finished(page);
  return lastAnswer(page);
}

/** Sets the slider as a hand would, one input event for the new value. */
export async function slide(page, value) {
  await page.locator("#bar").fill(String(value));
}

/** A real model is asked for a short answer, so that the tests end soon. */
export async function shorten(page, tokens = 40) {
  await page.locator("#more").click();
  await page.locator("#max-tokens").fill(String(tokens));
  await page.locator("#more").click();
}
