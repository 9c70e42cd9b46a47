// The official `openai` package for Node against `tandem serve`.

import OpenAI from 'openai';
import assert from 'node:assert/strict';
import { run } from './check.mjs';

const [url, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const messages = [{ role: 'user', content: 'What is the capital of France?' }];
const settings = { model: 'tandem-small', temperature: 0, max_tokens: 24, messages };

await run({
  async chat() {
    const answer = await client.chat.completions.create(settings);
    assert.match(answer.choices[0].message.content, /\w/);
    assert.match(answer.choices[0].finish_reason, /^(stop|length)$/);
    assert.equal(answer.tandem.mode, 'small');
  },
  async streaming() {
    const likely = { ...settings, logprobs: true, top_logprobs: 2 };
    const whole = await client.chat.completions.create(likely);
    const stream = await client.chat.completions.create({ ...likely, stream: true });
    const tokens = [];
    let text = '';
    for await (const { choices: [choice] } of stream) {
      text += choice?.delta?.content ?? '';
      tokens.push(...(choice?.logprobs?.content ?? []));
    }
    assert.equal(text, tokens.map((t) => t.token).join(''));
    // The same words, up to a place where the first choice is hardly ahead: rounding decides there.
    const expected = whole.choices[0].logprobs.content;
    const parting = expected.findIndex((t, i) => t.token !== tokens[i]?.token);
    if (parting < 0) return assert.equal(text, whole.choices[0].message.content);
    const [first, second] = expected[parting].top_logprobs;
    assert.ok(first.logprob - second.logprob < 0.5, `${text} is not ${whole.choices[0].message.content}`);
  },
  async aborting() {
    const long = { ...settings, max_tokens: 500, stream: true };
    const stream = await client.chat.completions.create(long);
    for await (const _ of stream) break;
    stream.controller.abort();
    for (let i = 0; i < 100; i++) {
      const health = await (await fetch(`${url}/health`)).json();
      if (health.running === 0) return;
      await new Promise((done) => setTimeout(done, 20));
    }
    assert.fail('the text went on without its reader');
  },
  async stop() {
    // Commas only, on every CPU: a bias makes any other token impossible.
    const comma = { logit_bias: { 28: 100 }, max_tokens: 8 };
    const answer = await client.chat.completions.create({ ...settings, ...comma, stop: [',,,'] });
    assert.equal(answer.choices[0].message.content, '');
    assert.equal(answer.choices[0].finish_reason, 'stop');
  },
  async a_schema() {
    const schema = { type: 'object', properties: { city: { enum: ['Paris', 'Rome'] } }, required: ['city'],
      additionalProperties: false };
    const response_format = { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } };
    const answer = await client.chat.completions.create({ ...settings, max_tokens: 60, response_format });
    assert.match(JSON.parse(answer.choices[0].message.content).city, /^(Paris|Rome)$/);
  },
  async tools() {
    const parameters = { type: 'object', properties: { city: { enum: ['Paris', 'Rome'] } }, required: ['city'] };
    const tools = [{ type: 'function', function: { name: 'get_weather', parameters } }];
    const call = { ...settings, max_tokens: 80, tools, tool_choice: 'required' };
    const final = await client.chat.completions.stream(call).finalChatCompletion();
    const [made] = final.choices[0].message.tool_calls;
    assert.match(JSON.parse(made.function.arguments).city, /^(Paris|Rome)$/);
  },
  async responses() {
    const answer = await client.responses.create({ model: 'tandem-small', input: 'Hello', max_output_tokens: 12 });
    assert.match(answer.output_text, /\w/);
  },
  async errors_are_their_exceptions() {
    const unknown = client.chat.completions.create({ ...settings, model: 'gpt-4o' });
    await assert.rejects(unknown, OpenAI.NotFoundError);
    const wrong = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'wrong', maxRetries: 0 });
    await assert.rejects(wrong.models.list(), OpenAI.AuthenticationError);
  },
  async models() {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    assert.deepEqual(names, ['tandem-joint', 'tandem-small', 'tandem-large', 'tandem-verify']);
  },
});
