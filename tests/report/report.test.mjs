// The report in Chromium: nothing breaks, everything is drawn, legible in light and dark, on a desk
// and on a phone. With SHOTS=FOLDER it leaves screenshots there.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const require = createRequire(here("../page/package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const TANDEM = process.env.TANDEM ?? here("../../target/release/tandem");

const folder = mkdtempSync(join(tmpdir(), "report-"));
const at = (name) => join(folder, name);
const numbers = {};
let browser;

/** Writes a report of these results, and keeps its numbers. */
function report(name, ...results) {
  const files = results.map((result) => at(`${result}.jsonl`));
  const arguments_ = ["report", ...files, "-o", at(`${name}.html`), "--markdown", at(`${name}.md`), "--json"];
  const told = execFileSync(TANDEM, arguments_, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  numbers[name] = JSON.parse(told);
}

before(async () => {
  execFileSync(process.execPath, [here("make_results.mjs"), folder]);
  report("both", "choice", "text");
  for (const name of ["hostile", "one", "none"]) report(name, name);
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
  });
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

/** Opens a report; fails if the page complains, or asks for anything besides itself. */
async function open(name, work, { width = 1280, colorScheme = "light" } = {}) {
  const held = await browser.newContext({ viewport: { width, height: 800 }, colorScheme, deviceScaleFactor: width < 500 ? 2 : 1 });
  const page = await held.newPage();
  const complaints = [];
  const address = pathToFileURL(at(`${name}.html`)).href;
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(address) && !request.url().startsWith("data:")) complaints.push(`a request: ${request.url()}`);
  });
  try {
    await page.goto(address);
    await work(page);
    assert.deepEqual(complaints, []);
  } finally {
    await held.close();
  }
}

/** Whatever sticks out of the window, unless it scrolls by itself. */
const sideways = (page) =>
  page.evaluate(() => {
    const wide = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > wide) return ["the page itself"];
    return [...document.querySelectorAll("body *")]
      .filter((e) => !e.closest(".wide") && e.getClientRects().length > 0 && e.getBoundingClientRect().right > wide + 0.5)
      .map((e) => e.outerHTML.slice(0, 80));
  });

const SIGHTS = [["a desk", 1280], ["a tablet", 768], ["a phone", 360], ["a small phone", 320]].flatMap(
  ([where, width]) => ["light", "dark"].map((colorScheme) => ({ where, width, colorScheme })),
);

for (const { where, width, colorScheme } of SIGHTS) {
  test(`on ${where}, ${colorScheme}: every plot is drawn, nothing sticks out`, () =>
    open(
      "both",
      async (page) => {
        // Choices: share, whole answers, time, split, two of calibration; texts: share, three
        // delays, split.
        assert.equal(await page.locator("#task-1 svg.plot").count(), 6);
        assert.equal(await page.locator("#task-2 svg.plot").count(), 5);
        await page.locator("details").evaluateAll((all) => all.forEach((e) => (e.open = true)));
        assert.deepEqual(await sideways(page), []);
        const plots = await page.locator("svg.plot").evaluateAll((all) =>
          all.map((svg) => {
            const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
            const scale = svg.getBoundingClientRect().width / width;
            const words = [...svg.querySelectorAll("text")];
            const out = ({ x, y, width: w, height: h }) => x < -1 || y < -1 || x + w > width + 1 || y + h > height + 1;
            return {
              words: words.length,
              smallest: Math.min(...words.map((word) => parseFloat(getComputedStyle(word).fontSize) * scale)),
              outside: words.filter((word) => out(word.getBBox())).map((word) => word.textContent.trim()),
              shapes: svg.querySelectorAll("polyline, polygon, rect, circle, line").length,
              name: svg.querySelector("title").textContent,
              told: svg.querySelector("desc").textContent.length,
            };
          }),
        );
        for (const plot of plots) {
          assert.ok(plot.words > 6 && plot.shapes > 6, `${plot.name} is empty`);
          assert.ok(plot.smallest >= (width < 340 ? 8.5 : 9.5), `${plot.name}: words of ${plot.smallest} pixels`);
          assert.deepEqual(plot.outside, [], plot.name);
          assert.ok(plot.told > 40, `${plot.name} has no words for those who cannot see it`);
        }
        if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${where.replaceAll(" ", "-")}-${colorScheme}.png`), fullPage: true });
      },
      { width, colorScheme },
    ));
}

/** How far two colours are apart, as WCAG counts it. */
const contrast = (one, other) => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map((part) => {
      const share = Number(part) / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};

for (const colorScheme of ["light", "dark"]) {
  test(`${colorScheme}: lines stand out from the page, and axe finds nothing`, () =>
    open(
      "both",
      async (page) => {
        const { ground, inks } = await page.locator("figure.whole").evaluate((figure) => ({
          ground: getComputedStyle(figure).backgroundColor,
          inks: [...figure.querySelectorAll("svg.plot polyline")]
            .filter((line) => Number(line.getAttribute("opacity")) === 1 && line.getAttribute("stroke") !== "var(--grid)")
            .map((line) => getComputedStyle(line).stroke),
        }));
        assert.ok(new Set(inks).size >= 6, `${new Set(inks).size} colours`);
        for (const ink of new Set(inks)) assert.ok(contrast(ink, ground) >= 3, `${ink} on ${ground}`);
        const words = await page.locator("svg.plot text").evaluateAll((all) => all.map((e) => getComputedStyle(e).fill));
        for (const ink of new Set(words)) assert.ok(contrast(ink, ground) >= 4.5, `words of ${ink} on ${ground}`);
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => globalThis.axe.run(document));
        assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)} ${nodes[0].any[0]?.message ?? ""}`), []);
      },
      { colorScheme },
    ));
}

test("lines differ in more than their colour", () =>
  open("both", async (page) => {
    // Colours taken away, every entry of a legend still has a look of its own.
    const looks = await page.locator("figure.share, figure.whole").evaluateAll((figures) =>
      figures.map((figure) => [...figure.querySelectorAll(".legend svg")].map((svg) => svg.innerHTML.replaceAll(/var\(--[^)]*\)/g, ""))),
    );
    assert.equal(looks.length, 3);
    for (const legend of looks) assert.equal(new Set(legend).size, legend.length);
    const parts = await page.locator("figure.split .legend rect").evaluateAll((all) => all.map((e) => e.getAttribute("fill")));
    assert.ok(parts.every((fill) => /^url\(#part-\d\)$/.test(fill)), parts.join());
  }));

test("random is in every plot of joint decoding, with a band against the share", () =>
  open("both", async (page) => {
    const figures = page.locator("figure.share, figure.whole, figure.time");
    assert.equal(await figures.count(), 7);
    for (const figure of await figures.all()) {
      assert.match(await figure.locator(".legend").innerText(), /random/);
      assert.ok((await figure.locator("svg.plot [stroke='var(--chance)']").count()) > 2);
    }
    for (const figure of await page.locator("figure.share").all()) {
      for (const ink of ["line-0", "chance"]) {
        const band = figure.locator(`polygon[fill='var(--${ink})'][opacity='0.16']`);
        assert.ok((await band.boundingBox()).height > 5, ink);
      }
    }
  }));

test("the table has the numbers that programs get", () =>
  open("both", async (page) => {
    const percent = (share) => `${(share * 100).toFixed(1)}\u{a0}%`;
    const rows = await page.locator("#task-1 tbody tr").evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
    const { points } = numbers.both.tasks[0];
    assert.ok(points.length > 60);
    for (const { name, questions, accuracy } of points) {
      const row = rows.find(([first]) => first === name);
      assert.deepEqual(row?.slice(1, 3), [String(questions), percent(accuracy)], name);
    }
  }));

test("ten answers, the cloud's tokens marked and their scores at hand", () =>
  open("both", async (page) => {
    assert.equal(await page.locator("#task-1 article").count(), 10);
    assert.ok((await page.locator("#task-1 article.good").count()) >= 5);
    const token = page.locator("#task-1 article .cloud").first();
    assert.match(await token.getAttribute("title"), /^cloud, trust in the edge 0\.\d{3}$/);
    const look = (e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e).borderBottomStyle];
    assert.notDeepEqual(await token.evaluate(look), await page.locator("#task-1 article .edge").first().evaluate(look));
    // Answers of each alone are folded away.
    const alone = page.locator("#task-1 article details").first();
    assert.equal(await alone.locator("p").isVisible(), false);
    await alone.locator("summary").click();
    assert.ok(await alone.locator("p").isVisible());
  }));

test("texts are weighed, and the limits of that are said", () =>
  open("both", async (page) => {
    assert.match(await page.locator("#task-2 .notes").innerText(), /not good because the large model finds it likely/);
    assert.match(await page.locator("#task-2 figure.share h4").innerText(), /^Likelihood/);
    assert.equal(await page.locator("#task-2 figure.calibration-mean").count(), 0);
  }));

for (const width of [1280, 360]) {
  test(`names and answers stay words, ${width} wide`, () =>
    open(
      "hostile",
      async (page) => {
        assert.equal(await page.evaluate(() => window.broken), undefined);
        assert.equal(await page.locator("script, img, [onmouseover], [onerror]").count(), 0);
        assert.match(await page.locator("h1").innerText(), /<script>window\.broken = true<\/script>/);
        assert.equal(await page.locator("svg.plot").count(), 6);
        await page.locator("details").evaluateAll((all) => all.forEach((e) => (e.open = true)));
        assert.deepEqual(await sideways(page), []);
      },
      { width },
    ));
}

test("one question, and none: a page all the same", async () => {
  await open("one", async (page) => {
    assert.match(await page.locator(".notes").innerText(), /1 question cannot tell much/);
    assert.ok(await page.locator("figure.share svg.plot").isVisible());
  });
  await open("none", async (page) => {
    assert.match(await page.locator(".notes").innerText(), /No question is answered yet/);
    assert.equal(await page.locator("svg.plot").count(), 0);
  });
});
