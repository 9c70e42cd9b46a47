// Charts in SVG: each draws itself anew from an answer and says in a sentence what it shows. Colours
// come from the style sheet, so both themes hold.

import { make, draw } from "./dom.js";
import { PARTS, columnsOf } from "./answer.js";
import { duration, percent, setShare } from "./format.js";

const WIDE = 320;
const HIGH = 104;
const LEFT = 44;
const RIGHT = 4;
const TOP = 8;
const FLOOR = 84;
const COLUMNS = 140;

/** A figure with a title, a drawing and a caption that is also the drawing's text for screen readers. */
class Figure {
  constructor(title, kind) {
    this.svg = draw("svg", { class: `chart ${kind}`, viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img" });
    this.caption = make("p", { class: "muted" });
    this.element = make("figure", {}, make("h3", {}, title), this.svg, this.caption);
  }

  set(children, sentence) {
    this.svg.replaceChildren(...children);
    if (this.caption.textContent === sentence) return;
    this.caption.textContent = sentence;
    this.svg.setAttribute("aria-label", sentence);
  }
}

const line = (y, kind = "grid") => draw("line", { class: kind, x1: LEFT, x2: WIDE - RIGHT, y1: y, y2: y });
const label = (x, y, text, anchor = "end") => draw("text", { x, y, "text-anchor": anchor }, text);
const ends = (n) => [label(LEFT, HIGH - 4, "1", "start"), label(WIDE - RIGHT, HIGH - 4, `token ${n}`)];

/** The share of the cloud, token by token. */
export class ShareChart extends Figure {
  constructor() {
    super("From the cloud, so far", "share");
  }

  draw(answer) {
    const n = answer.tokens.length;
    const budget = answer.summary ? answer.summary.budget : answer.choice.budget;
    const at = (i) => answer.routed[i] / (i + 1);
    const columns = Math.min(n, COLUMNS);
    // The first tokens swing between nothing and all: the scale is set by what follows.
    const settled = Math.min(n - 1, 8);
    let most = Math.max(0.1, budget ?? 0, answer.share);
    for (let i = Math.max(0, settled); i < n; i += 1) most = Math.max(most, at(i));
    const top = [0.1, 0.2, 0.5, 1].find((step) => most <= step + 1e-9) ?? 1;
    // A share above the scale leaves the drawing at its upper edge.
    const y = (share) => FLOOR - (share / top) * (FLOOR - TOP);
    const x = (i) => LEFT + (n < 2 ? 0 : (i / (n - 1)) * (WIDE - RIGHT - LEFT));
    const points = Array.from({ length: columns }, (_, c) => {
      const i = columns === 1 ? 0 : Math.round((c * (n - 1)) / (columns - 1));
      return `${x(i).toFixed(1)} ${y(at(i)).toFixed(1)}`;
    });
    const shapes = [line(y(top)), line(y(top / 2)), line(FLOOR, "axis"), label(LEFT - 5, y(top) + 4, percent(top, 0)), label(LEFT - 5, FLOOR + 4, "0")];
    if (points.length > 1) {
      shapes.push(
        draw("path", { class: "area", d: `M${LEFT} ${FLOOR}L${points.join("L")}L${WIDE - RIGHT} ${FLOOR}Z` }),
        draw("path", { class: "trace", d: `M${points.join("L")}` }),
      );
    }
    if (budget !== undefined && budget !== null) shapes.push(line(y(budget), "goal"));
    this.set([...shapes, ...ends(n)], this.#sentence(answer, budget));
  }

  #sentence(answer, budget) {
    const n = answer.tokens.length;
    const goal = budget === undefined || budget === null ? "" : ` The dashed line is the budget, ${setShare(budget)}.`;
    return `${answer.counts.cloud} of ${n} tokens from the cloud: ${percent(answer.share)}.${goal}`;
  }
}

/** Time between tokens as they arrive here, on a scale where every step is ten times the last. */
export class GapChart extends Figure {
  constructor() {
    super("Time between tokens", "gaps");
  }

  draw(answer) {
    const decades = Math.max(3, Math.ceil(Math.log10(Math.max(1, answer.longestGap))));
    const y = (ms) => FLOOR - (Math.log10(Math.max(1, ms)) / decades) * (FLOOR - TOP);
    const bars = columnsOf(answer.gaps, COLUMNS);
    const wide = (WIDE - RIGHT - LEFT) / Math.max(bars.length, 24);
    const paths = { edge: "", cloud: "", fallback: "", plain: "" };
    bars.forEach((gap, i) => {
      const height = Math.max(1, FLOOR - y(gap.ms));
      paths[gap.source] += `M${(LEFT + i * wide).toFixed(2)} ${FLOOR}v${-height.toFixed(1)}h${(wide * 0.8).toFixed(2)}v${height.toFixed(1)}z`;
    });
    const shapes = [];
    for (let d = 1; d <= decades; d += 1) {
      const at = y(10 ** d);
      shapes.push(line(at), label(LEFT - 5, at + 4, d < 3 ? `${10 ** d} ms` : `${10 ** (d - 3)} s`));
    }
    shapes.push(line(FLOOR, "axis"), label(LEFT - 5, FLOOR + 4, "1 ms"));
    for (const [source, d] of Object.entries(paths)) if (d) shapes.push(draw("path", { class: `bars ${source}`, d }));
    this.set([...shapes, ...ends(answer.tokens.length)], this.#sentence(answer));
  }

  #sentence(answer) {
    if (answer.first === null) return "No token yet.";
    const first = `The first token came after ${duration(answer.first)}`;
    if (answer.gaps.length === 0) return `${first}.`;
    return `${first}; then half of them within ${duration(answer.medianGap)}; the longest wait was ${duration(answer.longestWait)}.`;
  }
}

/** Where the time went, in the order of a token's way. */
export function split(answer) {
  const parts = PARTS.map(([part, name]) => ({ part, name, ms: answer.times[part] ?? 0 }));
  const known = parts.reduce((sum, each) => sum + each.ms, 0);
  const rest = answer.summary ? answer.total - known : 0;
  // What no part accounts for; below a hundredth it is noise of the clocks.
  if (rest > answer.total / 100) parts.push({ part: "other_ms", name: "other", ms: rest });
  const spent = parts.filter((each) => each.ms > 0);
  return { spent, all: spent.reduce((sum, each) => sum + each.ms, 0) };
}

/** A stacked bar of the split, with its legend when there is room for one. */
export class SplitChart {
  constructor({ legend = true } = {}) {
    this.svg = draw("svg", { class: "split", viewBox: "0 0 1000 24", preserveAspectRatio: "none", role: "img" });
    this.list = make("ul", { class: "parts" });
    this.element = make("figure", {}, make("h3", {}, "Where the time went"), this.svg, legend ? this.list : null);
  }

  draw(answer) {
    const { spent, all } = split(answer);
    let x = 0;
    const kind = (part) => part.replace("_ms", "").replace("_", "-");
    this.svg.replaceChildren(
      ...spent.map(({ part, name, ms }) => {
        const width = (ms / all) * 1000;
        x += width;
        return draw("rect", { class: `part ${kind(part)}`, x: x - width, width, height: 24 }, draw("title", {}, `${name}: ${duration(ms)}`));
      }),
    );
    const words = spent.map(({ name, ms }) => `${name} ${duration(ms)}`).join(", ");
    this.svg.setAttribute("aria-label", spent.length === 0 ? "No time spent yet." : `${duration(all)} in all: ${words}.`);
    this.list.replaceChildren(
      ...spent.map(({ part, name, ms }) =>
        make(
          "li",
          {},
          make("span", { class: `swatch ${kind(part)}`, "aria-hidden": "true" }),
          make("span", { class: "name" }, name),
          make("span", { class: "number" }, duration(ms)),
          make("span", { class: "number share-of" }, percent(ms / all, 0)),
        ),
      ),
    );
  }
}
