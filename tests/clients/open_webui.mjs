// Open WebUI in a browser, over `tandem serve`: its list of models, a streamed chat, a second turn.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { launch } from '../page/browser.js';
import { run } from './check.mjs';

const [address, url, key, pictures] = process.argv.slice(2);
const PATIENCE = 120_000;

/** What the server has answered on a route: requests by status, as in `/metrics`. */
async function answered(route) {
  const response = await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${key}` } });
  const counts = {};
  for (const line of (await response.text()).split('\n')) {
    const [, labels, count] = line.match(/^tandem_requests_total\{(.*)\} (\d+)$/) ?? [];
    if (!labels?.includes(`"${route}"`)) continue;
    const [, status] = labels.match(/status="(\d+)"/);
    counts[status] = (counts[status] ?? 0) + Number(count);
  }
  return counts;
}

const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: 'en-US' });
const page = await context.newPage();
page.setDefaultTimeout(PATIENCE);
const elsewhere = [];
await context.route('**/*', (route) => {
  const { hostname, href } = new URL(route.request().url());
  if (['127.0.0.1', 'localhost'].includes(hostname)) return route.continue();
  elsewhere.push(href);
  return route.abort();
});

async function picture(name) {
  if (!pictures) return;
  await mkdir(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, `${name}.png`) });
}

const answers = page.locator('.chat-assistant');

/** Sends a message; gives the answer's texts as they were seen while it grew. */
async function ask(text) {
  const before = await answers.count();
  await page.locator('#chat-input').click();
  await page.keyboard.type(text);
  await page.keyboard.press('Enter');
  const answer = answers.nth(before);
  await answer.waitFor();
  const seen = new Set();
  const idle = page.getByRole('button', { name: 'Voice mode' });
  for (const until = Date.now() + PATIENCE; Date.now() < until; ) {
    seen.add((await answer.innerText()).trim());
    // The button to stop stands in the place of this one while an answer runs.
    if (seen.size > 1 && (await idle.isVisible())) break;
    await page.waitForTimeout(20);
  }
  assert.ok(await idle.isVisible(), 'the answer does not end');
  seen.add((await answer.innerText()).trim());
  return [...seen].filter((part) => part !== '');
}

await run({
  async models() {
    await page.goto(address);
    // News of its own version stand before the page at first.
    await page.getByRole('button', { name: "Okay, Let's Go!" }).click();
    await page.locator('#model-selector-model-button').click();
    const list = page.locator('#model-selector-list');
    await list.getByText('tandem-joint').waitFor();
    await picture('models');
    const names = await list.innerText();
    for (const mode of ['small', 'joint', 'large', 'verify']) assert.match(names, new RegExp(`tandem-${mode}`));
    await list.getByText('tandem-joint').click();
    await list.waitFor({ state: 'hidden' });
    assert.match(await page.locator('#model-selector-model-button').innerText(), /tandem-joint/);
  },
  async a_streamed_chat() {
    const seen = await ask('What is the capital of France? Tell me five things about it.');
    await picture('first');
    assert.match(seen.at(-1), /Paris/);
    assert.ok(seen.length > 3, `it came in ${seen.length} pieces: ${JSON.stringify(seen)}`);
  },
  async a_second_turn() {
    const before = await answered('/v1/chat/completions');
    const seen = await ask('What did I ask you about? Answer with one word.');
    await picture('second');
    assert.match(seen.at(-1), /\w/);
    assert.equal(await answers.count(), 2);
    assert.equal(await page.locator('.chat-user').count(), 2);
    const after = await answered('/v1/chat/completions');
    assert.ok(after[200] > (before[200] ?? 0), JSON.stringify({ before, after }));
  },
  async nothing_was_refused_and_nothing_went_elsewhere() {
    // The titles, tags and questions that it asks for behind the first answer as well.
    const chats = await answered('/v1/chat/completions');
    assert.deepEqual(Object.keys(chats), ['200'], JSON.stringify(chats));
    assert.deepEqual(Object.keys(await answered('/v1/models')), ['200']);
    assert.deepEqual(elsewhere, []);
  },
});
