// Runs functions as tests and prints how many passed.

export async function run(tests) {
  let failed = 0;
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test();
      console.log(`test ${name} ... ok`);
    } catch (error) {
      failed += 1;
      console.log(`test ${name} ... FAILED`);
      console.error(error);
    }
  }
  const passed = Object.keys(tests).length - failed;
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
