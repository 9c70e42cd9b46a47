// The official `@anthropic-ai/sdk` package for Node against `tandem serve`.

import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import { run } from './check.mjs';

const [url, apiKey] = process.argv.slice(2);
const client = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
const messages = [{ role: 'user', content: 'What is the capital of France?' }];
const settings = { model: 'tandem-small', max_tokens: 24, messages };
const tool = {
  name: 'get_weather',
  input_schema: { type: 'object', properties: { city: { enum: ['Paris', 'Rome'] } }, required: ['city'] },
};
const call = { ...settings, max_tokens: 80, tools: [tool], tool_choice: { type: 'any' } };

await run({
  async message() {
    const answer = await client.messages.create(settings);
    assert.match(answer.content[0].text, /\w/);
    assert.ok(answer.usage.output_tokens > 0);
  },
  async streaming() {
    const stream = client.messages.stream(settings);
    let text = '';
    stream.on('text', (delta) => (text += delta));
    const final = await stream.finalMessage();
    assert.equal(final.content[0].text, text);
    assert.match(final.stop_reason, /^(end_turn|max_tokens)$/);
  },
  async tools() {
    const whole = await client.messages.create(call);
    assert.equal(whole.stop_reason, 'tool_use');
    assert.match(whole.content[0].input.city, /^(Paris|Rome)$/);
    const streamed = await client.messages.stream(call).finalMessage();
    assert.match(streamed.content[0].input.city, /^(Paris|Rome)$/);
  },
  async errors_are_their_exceptions() {
    const unknown = client.messages.create({ ...settings, model: 'claude-4' });
    await assert.rejects(unknown, Anthropic.NotFoundError);
    const wrong = new Anthropic({ baseURL: url, apiKey: 'wrong', maxRetries: 0 });
    await assert.rejects(wrong.messages.create(settings), Anthropic.AuthenticationError);
  },
});
