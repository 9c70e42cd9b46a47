// Opens reports in a real browser and closes with the counts. Needs the program (TANDEM, or
// target/release/tandem), and Chromium and the packages that scripts/page/install.sh brings.

import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const file = fileURLToPath(new URL("report.test.mjs", import.meta.url));
let passed = 0;
let failed = 0;
const events = run({ files: [file], concurrency: 1 });
// The file itself is reported as a test too; its name is its path.
const counts = ({ name, details }) => details.type !== "suite" && name !== file;
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
