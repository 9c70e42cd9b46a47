// Runs test files one after the other (browsers side by side would disturb each other's timing) and
// closes with the counts, in the form that scripts/test.sh adds up.

import { run } from "node:test";
import { spec } from "node:test/reporters";

export function runAndCount(files) {
  let passed = 0;
  let failed = 0;
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
}
