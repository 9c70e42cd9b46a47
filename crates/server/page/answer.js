// One answer as data: its tokens, what they cost, what was sent for them. Knows nothing of the page.

/** Where time can go, in the order of a token's way; the names are those of the server's figures. */
export const PARTS = [
  ["edge_prefill_ms", "device reads"],
  ["edge_decode_ms", "device writes"],
  ["router_ms", "router"],
  ["cloud_load_ms", "cloud loads"],
  ["cloud_queue_ms", "cloud queue"],
  ["cloud_prefill_ms", "cloud reads"],
  ["cloud_decode_ms", "cloud writes"],
  ["network_ms", "network"],
];

/** Who can have written a token. `plain` stands for text that came without a trace. */
export const SOURCES = ["edge", "cloud", "fallback", "plain"];

const encoder = new TextEncoder();

/** An answer and the settings it was asked for with. */
export class Answer {
  tokens = [];
  text = "";
  /** The text without the calls of tools, as the server tells it. */
  content = "";
  /** Tools it calls: `{id, name, arguments}`. */
  calls = [];
  counts = { edge: 0, cloud: 0, fallback: 0, plain: 0 };
  /** Tokens from the cloud up to and with each token: the line of the routed share. */
  routed = [];
  /** Times between tokens: `{ms, source}`; tokens that came together share the wait for them. */
  gaps = [];
  /** The longest time without a new token, behind the first. */
  longestWait = 0;
  /** Milliseconds to the first token, as seen here. */
  first = null;
  /** What went to the cloud: `{index, text, bytes}`. */
  asks = [];
  summary = null;
  finish = null;
  /** waiting, streaming, done, stopped or failed. */
  state = "waiting";
  problem = null;
  #started = 0;
  #arrived = 0;
  #times = {};
  #summed = null;

  constructor(choice) {
    this.choice = choice;
  }

  /** The request goes out. */
  begin(now) {
    this.#started = now;
    this.#arrived = now;
  }

  /** Takes the chunks that came together. */
  take(chunks, now) {
    const tokens = chunks.flatMap((chunk) => this.#tokensOf(chunk));
    if (tokens.length === 0) return;
    for (const token of tokens) this.#accept(token);
    const wait = now - this.#arrived;
    this.#arrived = now;
    this.state = "streaming";
    if (this.first === null) {
      this.first = wait;
      return;
    }
    this.longestWait = Math.max(this.longestWait, wait);
    for (const { source } of tokens) this.gaps.push({ ms: wait / tokens.length, source });
  }

  #tokensOf(chunk) {
    const choice = chunk.choices?.[0];
    const content = choice?.delta?.content ?? "";
    this.content += content;
    for (const part of choice?.delta?.tool_calls ?? []) this.#call(part);
    if (choice?.finish_reason) this.finish = choice.finish_reason;
    if (chunk.tandem?.stats) {
      this.summary = chunk.tandem;
      this.#sum(chunk.tandem.stats);
    }
    if (chunk.tandem?.tokens) return chunk.tandem.tokens;
    return content === "" ? [] : [{ text: content, source: "plain", score: null }];
  }

  #sum(stats) {
    this.#summed = Object.fromEntries(PARTS.map(([part]) => [part, stats[part] ?? 0]));
  }

  /** What is new of a call: first its id and its name, then its arguments in pieces. */
  #call({ index, id, function: called }) {
    this.calls[index] ??= { id: "", name: "", arguments: "" };
    const call = this.calls[index];
    call.id = id ?? call.id;
    call.name = called?.name ?? call.name;
    call.arguments += called?.arguments ?? "";
  }

  #accept(token) {
    if (!SOURCES.includes(token.source)) token.source = "plain";
    this.counts[token.source] += 1;
    this.routed.push(this.counts.cloud);
    this.text += token.text;
    for (const [part] of PARTS) this.#times[part] = (this.#times[part] ?? 0) + (token.times?.[part] ?? 0);
    if (typeof token.sent === "string") {
      this.asks.push({ index: this.tokens.length, text: token.sent, bytes: encoder.encode(token.sent).length });
    }
    this.tokens.push(token);
  }

  /** The stream is over: at its end, stopped by the user, or by a problem. */
  end(state, problem = null) {
    this.state = state;
    this.problem = problem;
  }

  /** All there is to keep of it, as plain data. Times of single tokens and their alternatives are left out:
   *  they are most of a trace. */
  kept() {
    const { choice, content, calls, finish, first, longestWait, summary } = this;
    return {
      state: this.running ? "stopped" : this.state,
      choice, content, calls, finish, first, longestWait, summary,
      total: this.total,
      gaps: this.gaps.map(({ ms }) => Math.round(ms * 10) / 10),
      tokens: this.tokens.map(keptToken),
    };
  }

  /** The answer that was kept. */
  static restored({ tokens, gaps, total, ...kept }) {
    const answer = new Answer(kept.choice);
    for (const token of tokens) answer.#accept(token);
    const { state, content, calls, finish, first, longestWait, summary } = kept;
    Object.assign(answer, { state, content, calls, finish, first, longestWait, summary });
    // The tokens that came first together have no gap.
    const late = tokens.length - gaps.length;
    answer.gaps = gaps.map((ms, i) => ({ ms, source: answer.tokens[late + i].source }));
    answer.#arrived = total;
    if (summary?.stats) answer.#sum(summary.stats);
    return answer;
  }

  /** Where the time went: the server's sums once they are there, which also hold what was spent on
   *  tokens that are not shown. */
  get times() {
    return this.#summed ?? this.#times;
  }

  get running() {
    return this.state === "waiting" || this.state === "streaming";
  }

  /** Tokens from the cloud, divided by all. */
  get share() {
    return this.tokens.length === 0 ? 0 : this.counts.cloud / this.tokens.length;
  }

  /** Bytes that went to the cloud: the server's count once it is there. */
  get sentBytes() {
    return this.summary?.stats.sent_bytes ?? this.asks.reduce((sum, ask) => sum + ask.bytes, 0);
  }

  /** Times the cloud answered. */
  get askCount() {
    return this.summary?.stats.asks ?? this.asks.length;
  }

  /** Milliseconds from the request to the last token. */
  get total() {
    return this.summary?.stats.total_ms ?? Math.max(0, this.#arrived - this.#started);
  }

  /** Half of the gaps are shorter; null before the second token. */
  get medianGap() {
    if (this.gaps.length === 0) return null;
    const sorted = this.gaps.map((gap) => gap.ms).sort((a, b) => a - b);
    return sorted[sorted.length >> 1];
  }

  get longestGap() {
    return this.gaps.reduce((most, gap) => Math.max(most, gap.ms), 0);
  }

  /** The first token of the ask that `index` belongs to: it carries the times of all of it. */
  headOf(index) {
    let head = index;
    while (head > 0 && this.tokens[head].source === "cloud" && !this.tokens[head].cloud && this.tokens[head - 1].source === "cloud") head -= 1;
    return head;
  }
}

/** What says who wrote a token and why. */
function keptToken({ text, source, score, eligible, constrained, cloud, sent }) {
  const rounded = typeof score === "number" ? Math.round(score * 10_000) / 10_000 : null;
  return { text, source, score: rounded, eligible, constrained, cloud, sent };
}

/** The bars of `gaps` in at most `columns` columns: of each column the longest, with its source. */
export function columnsOf(gaps, columns) {
  if (gaps.length <= columns) return gaps;
  return Array.from({ length: columns }, (_, column) => {
    const from = Math.floor((column * gaps.length) / columns);
    const to = Math.floor(((column + 1) * gaps.length) / columns);
    return gaps.slice(from, to).reduce((most, gap) => (gap.ms > most.ms ? gap : most));
  });
}
