// Opens reports in a real browser and closes with the counts. Needs the program (TANDEM, or
// target/release/tandem), and Chromium and the packages that scripts/page/install.sh brings.

import { fileURLToPath } from "node:url";
import { runAndCount } from "../counts.mjs";

await runAndCount({ files: [fileURLToPath(new URL("report.test.mjs", import.meta.url))] });
