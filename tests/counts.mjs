// Runs test files and closes with the counts, in the form that scripts/test.sh adds up.

import { run } from "node:test";
import { spec } from "node:test/reporters";

/** Runs the groups one after the other, and up to `together` files of a group at a time. */
export async function runAndCount(...groups) {
  let passed = 0;
  let failed = 0;
  for (const { files, together = 1 } of groups) {
    // Without files it would look for some.
    if (files.length === 0) continue;
    const events = run({ files, concurrency: together });
    // A test file is itself reported as a test; its name is its path.
    const counts = ({ name, details }) => details.type !== "suite" && !files.includes(name);
    events.on("test:pass", (event) => {
      if (counts(event) && !event.skip) passed += 1;
    });
    events.on("test:fail", (event) => {
      // A file that fails without a failed test of its own did not even load.
      if (counts(event) || event.details.error?.failureType !== "subtestsFailed") failed += 1;
    });
    for await (const text of events.compose(spec)) process.stdout.write(text);
  }
  if (passed + failed === 0) failed = 1;
  process.exitCode = failed === 0 ? 0 : 1;
  console.log(`\n${passed} passed, ${failed} failed`);
}
