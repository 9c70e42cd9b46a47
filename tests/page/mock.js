// A server that speaks the edge server's HTTP contract with scripted answers and faults, so that the
// page can be tested without models. It refuses what the contract refuses.
//
// `node mock.js [port]` serves it for a look by hand.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { CALL, stats, trace } from "./answers.js";

const PAGE = fileURLToPath(new URL("../../crates/server/page/", import.meta.url));
const TYPES = { html: "text/html; charset=utf-8", css: "text/css; charset=utf-8", js: "text/javascript; charset=utf-8", svg: "image/svg+xml" };
const GUARD = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
};
const KNOWN = ["mode", "threshold", "budget", "router", "on_cloud_error", "trace"];
const ABOUT = {
  version: "0.2.0",
  edge: { name: "SmolLM2-135M-Instruct" },
  cloud: { name: "Qwen2.5-Coder-1.5B-Instruct", place: "remote" },
  cloud_state: "ready",
  router: { name: "top1", trained: false },
  routers: ["top1", "margin", "entropy", "random", "never", "always"],
  policy: { threshold: 0.2 },
  preset: null,
  limits: { context: 2048, max_tokens: 256 },
};

class Refusal extends Error {
  constructor(status, message, headers = {}) {
    super(message);
    Object.assign(this, { status, headers });
  }
}

function reply(response, status, body, headers = {}) {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

const errorBody = (message, type = "invalid_request_error") => ({ error: { message, type, param: null, code: null } });

async function bodyOf(request) {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece;
  return JSON.parse(text);
}

function check(body) {
  const tandem = body.tandem ?? {};
  for (const name of Object.keys(tandem)) if (!KNOWN.includes(name)) throw new Refusal(400, `tandem.${name} is not known`);
  if (tandem.threshold !== undefined && tandem.budget !== undefined) throw new Refusal(400, "tandem.threshold and tandem.budget exclude each other");
  for (const bar of ["threshold", "budget"]) {
    const value = tandem[bar];
    if (value !== undefined && !(typeof value === "number" && value >= 0 && value <= 1)) throw new Refusal(400, `tandem.${bar} must lie between 0 and 1`);
  }
  if (!/^(tandem|maths)-(small|joint|large)$/.test(body.model)) throw new Refusal(404, `the model ${body.model} does not exist`);
  const roles = body.messages.map((m) => m.role).join(" ");
  if (!/^(system )?(user assistant |(tool )+assistant )*(user|tool( tool)*)$/.test(roles)) throw new Refusal(400, `messages out of order: ${roles}`);
}

/** Starts the mock; `requests` and `aborted` tell what it saw, and `about` is what it says of itself. */
export async function start({ key = null, port = 0, about = {} } = {}) {
  const state = { ...ABOUT, ...about };
  const mock = { requests: [], aborted: 0, refusals: 0, about: state };
  const busyOnce = new Set();

  async function chat(request, response) {
    const body = await bodyOf(request);
    mock.requests.push(body);
    check(body);
    const prompt = body.messages.at(-1).content;
    if (prompt.startsWith("mock:busy") && !busyOnce.has(prompt)) {
      busyOnce.add(prompt);
      throw new Refusal(503, "8 generations run and 16 wait", { "retry-after": "2" });
    }
    if (prompt.startsWith("mock:refuse")) throw new Refusal(400, "the prompt has 9000 tokens, the context holds 2048 <b>bold</b>");
    if (prompt.startsWith("mock:fail")) throw new Refusal(500, "the engine stopped");
    if (prompt.startsWith("mock:hang")) {
      response.on("close", () => (mock.aborted += 1));
      return;
    }
    await stream(body, prompt, response);
  }

  async function stream(body, prompt, response) {
    const started = performance.now();
    const settings = { mode: body.tandem?.mode ?? body.model.replace(/^.*-/, ""), ...body.tandem };
    let tokens = trace(prompt, settings);
    const limit = body.max_tokens ?? Infinity;
    const calls = prompt.startsWith("mock:call") && body.tools !== undefined;
    const finish = tokens.length > limit ? "length" : calls ? "tool_calls" : "stop";
    tokens = tokens.slice(0, limit);
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    let gone = false;
    response.on("close", () => {
      if (response.writableFinished) return;
      gone = true;
      mock.aborted += 1;
    });
    const send = (value) => response.write(`data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`);
    const chunk = (delta, finish_reason, tandem) =>
      send({ id: "chatcmpl-1", object: "chat.completion.chunk", created: 0, model: body.model, choices: [{ index: 0, delta, finish_reason }], ...(tandem ? { tandem } : {}) });
    const fast = prompt.startsWith("mock:long");
    const pace = (token) => (prompt.startsWith("mock:slow") ? 40 : token.cloud ? 8 : 2);
    chunk({ role: "assistant", content: "" }, null);
    for (const [index, token] of tokens.entries()) {
      if (gone) return;
      if (index === 6 && prompt.startsWith("mock:break")) {
        send({ ...errorBody("the engine ran out of memory", "server_error") });
        response.end();
        return;
      }
      if (index === 6 && prompt.startsWith("mock:cut")) {
        // What was written is on its way before the line is cut.
        await sleep(80);
        response.destroy();
        return;
      }
      if (fast ? index % 20 === 0 : true) await sleep(fast ? 8 : pace(token));
      const traced = body.tandem?.trace && !prompt.startsWith("mock:plain");
      // The text of a call is in the trace alone.
      const delta = calls && index >= CALL.from ? {} : { content: token.text };
      chunk(delta, null, traced ? { tokens: [token] } : undefined);
    }
    if (calls) {
      const part = (more) => chunk({ tool_calls: [{ index: 0, ...more }] }, null);
      part({ id: "call_1", type: "function", function: { name: CALL.name, arguments: "" } });
      for (const piece of CALL.arguments.match(/.{1,6}/g)) part({ function: { arguments: piece } });
    }
    chunk({}, finish, {
      mode: settings.mode,
      router: settings.router ?? "top1",
      threshold: settings.budget === undefined ? settings.threshold ?? 0.2 : null,
      budget: settings.budget ?? null,
      exchange: settings.mode === "small" ? null : "text",
      cloud_error: prompt.startsWith("mock:down") ? "the cloud did not answer within 10 s" : null,
      stats: stats(tokens, performance.now() - started),
    });
    send("[DONE]");
    response.end();
  }

  async function file(path, response) {
    const name = path === "/" ? "index.html" : path.slice(1);
    if (!/^[a-z]+\.(html|css|js|svg)$/.test(name)) throw new Refusal(404, "no such page");
    const text = await readFile(join(PAGE, name)).catch(() => {
      throw new Refusal(404, "no such page");
    });
    response.writeHead(200, { "content-type": TYPES[name.split(".")[1]], ...GUARD });
    response.end(text);
  }

  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, "http://mock");
    try {
      if (key && pathname.startsWith("/v1/") && request.headers.authorization !== `Bearer ${key}`) {
        mock.refusals += 1;
        throw new Refusal(401, request.headers.authorization ? "This key is not one of the server's." : "No key was given.");
      }
      const route = `${request.method} ${pathname}`;
      if (route === "POST /v1/chat/completions") await chat(request, response);
      else if (route === "GET /v1/tandem") reply(response, 200, state);
      else if (route === "GET /health") reply(response, 200, { status: "ok", version: state.version, running: 0, queued: 0 });
      else if (request.method === "GET") await file(pathname, response);
      else throw new Refusal(404, "no such route");
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      reply(response, error.status, errorBody(error.message), error.headers);
    }
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  mock.url = `http://127.0.0.1:${server.address().port}/`;
  mock.close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return mock;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = await start({ port: Number(process.argv[2] ?? 8081) });
  console.log(mock.url);
}
