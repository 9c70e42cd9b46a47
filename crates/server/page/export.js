// A conversation as a file: Markdown for people, JSON for programs. Both say who wrote each token, and the score
// the router gave it.

import { contentOf, fence } from "./message.js";
import { count, pairName, percent, policyName, score, visible } from "./format.js";
import { pretty } from "./readable.js";

const SOURCES = { edge: "device", cloud: "cloud", fallback: "device, for the cloud", plain: "unknown" };

/** `text` in a cell of a table. */
function cell(text) {
  const marks = text.includes("`") ? "``" : "`";
  const bare = visible(text).replaceAll("|", "\\|");
  return text.includes("`") ? `${marks} ${bare} ${marks}` : `${marks}${bare}${marks}`;
}

const block = (text, kind = "") => `${fence(text)}${kind}\n${text}\n${fence(text)}`;

function table(answer) {
  const row = (token, i) => `| ${i + 1} | ${cell(token.text)} | ${SOURCES[token.source]} | ${typeof token.score === "number" ? score(token.score) : "–"} |`;
  return ["| token | text | written by | score |", "| ---: | --- | --- | ---: |", ...answer.tokens.map(row)].join("\n");
}

function answerText(answer) {
  const { cloud, fallback } = answer.counts;
  const sums = [
    [answer.choice.pair, answer.choice.mode, policyName(answer.choice)].filter(Boolean).join(", "),
    count(answer.tokens.length, "token"),
    `${cloud} from the cloud (${percent(answer.share)})`,
    fallback > 0 && `${fallback} by the device because the cloud could not be reached`,
    answer.state !== "done" && "not finished",
  ];
  const calls = answer.calls.map((call) => `Call of \`${call.name}\`:\n\n${block(pretty(call.arguments), "json")}`);
  const text = answer.calls.length > 0 ? answer.content : answer.text;
  return [
    "## Tandem",
    text.trim(),
    ...calls,
    `*${sums.filter(Boolean).join("; ")}.*`,
    answer.tokens.length > 0 && `<details><summary>Who wrote each token</summary>\n\n${table(answer)}\n\n</details>`,
  ];
}

function messageText(turn) {
  const results = (turn.results ?? []).map(({ name, text }) => `Result of \`${name}\`:\n\n${block(text)}`);
  const file = turn.file && `Attached, ${turn.file.name}:\n\n${block(turn.file.text)}`;
  return ["## You", turn.text, ...results, file];
}

/** `conversation` is `{title, server, turns}`. */
export function markdown({ title, server, turns }) {
  const parts = [`# ${title}`, `${pairName(server)}.`, ...turns.flatMap((turn) => [...messageText(turn), ...(turn.answer ? answerText(turn.answer) : [])])];
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

/** The same for programs: the shape has a name and a version. */
export function json({ title, server, turns }, now = new Date()) {
  const { version, edge, cloud, router } = server ?? {};
  return `${JSON.stringify(
    {
      format: "tandem-conversation",
      version: 1,
      exported: now.toISOString(),
      title,
      server: { version, edge, cloud, router },
      turns: turns.map((turn) => ({
        message: { content: contentOf(turn), file: turn.file?.name, results: turn.results },
        answer: turn.answer && { ...turn.answer.kept(), text: turn.answer.text, share: turn.answer.share },
      })),
    },
    null,
    2,
  )}\n`;
}

/** A name for the file, of letters and digits that every system takes. */
export const fileName = (title, ending) => `${title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 48) || "conversation"}.${ending}`;

/** Gives `text` to the browser as a file to keep. */
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser has taken it by then.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
