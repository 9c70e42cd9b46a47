// Runs every test of the page and closes with the counts. Against the mock server, or with
// TANDEM_URL against a real one; then the tests that need scripted faults are left out.

import { run } from "node:test";
import { spec } from "node:test/reporters";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { join } from "node:path";

const here = fileURLToPath(new URL(".", import.meta.url));
const chosen = process.argv.slice(2);
const files = readdirSync(here)
  .filter((name) => name.endsWith(".test.js") && (chosen.length === 0 || chosen.some((part) => name.includes(part))))
  .map((name) => join(here, name));

let passed = 0;
let failed = 0;
// One file at a time: browsers side by side would disturb each other's timing.
const events = run({ files, concurrency: 1 });
// A test file is itself reported as a test; its name is its path.
const counts = ({ name, details }) => details.type !== "suite" && !files.includes(name);
events.on("test:pass", (event) => {
  if (counts(event) && !event.skip) passed += 1;
});
events.on("test:fail", (event) => {
  // A file that fails without a failed test of its own did not even load.
  if (counts(event) || event.details.error?.failureType !== "subtestsFailed") failed += 1;
});
events.compose(spec).pipe(process.stdout);
events.on("end", () => {
  if (passed + failed === 0) failed = 1;
  process.exitCode = failed === 0 ? 0 : 1;
  setImmediate(() => console.log(`\n${passed} passed, ${failed} failed`));
});
