// The official `ollama` package for JavaScript against `tandem serve`.

import { Ollama } from 'ollama';
import assert from 'node:assert/strict';
import { run } from './check.mjs';

const [host, key] = process.argv.slice(2);
const client = new Ollama({ host, headers: { Authorization: `Bearer ${key}` } });
const messages = [{ role: 'user', content: 'What is the capital of France?' }];
const settings = { model: 'tandem-small', messages, options: { temperature: 0, num_predict: 24 } };

await run({
  async models() {
    const names = (await client.list()).models.map((model) => model.model);
    assert.ok(names.includes('tandem-joint:latest'), names);
  },
  async chat() {
    const answer = await client.chat(settings);
    assert.match(answer.message.content, /\w/);
    assert.ok(answer.done && answer.eval_count > 0);
  },
  async streaming() {
    let text = '';
    let last;
    for await (last of await client.chat({ ...settings, stream: true })) text += last.message.content;
    assert.match(text, /\w/);
    assert.ok(last.done);
  },
  async a_schema() {
    const format = { type: 'object', properties: { city: { enum: ['Paris', 'Rome'] } }, required: ['city'],
      additionalProperties: false };
    const answer = await client.chat({ ...settings, format });
    assert.match(JSON.parse(answer.message.content).city, /^(Paris|Rome)$/);
  },
  async generate() {
    const answer = await client.generate({ model: 'tandem-small', prompt: 'Hello', options: settings.options });
    assert.equal(typeof answer.response, 'string');
  },
  async errors_are_exceptions() {
    await assert.rejects(client.chat({ ...settings, model: 'llama3' }), /llama3/);
  },
});
