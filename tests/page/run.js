// Runs every test of the page and closes with the counts. Against the mock server, or with
// TANDEM_URL against a real one; then the tests that need scripted faults are left out.

import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { runAndCount } from "../counts.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const chosen = process.argv.slice(2);
const files = readdirSync(here)
  .filter((name) => name.endsWith(".test.js") && (chosen.length === 0 || chosen.some((part) => name.includes(part))))
  .map((name) => join(here, name));

// Pages mostly wait, so two share the cores; one test looks at how long a frame takes, alone.
const looks = (name) => name.endsWith("chat.test.js");
await runAndCount({ files: files.filter(looks) }, { files: files.filter((name) => !looks(name)), together: 2 });
