// Copying text, also where the clipboard's own interface is missing: pages that came over plain
// HTTP from another machine do not have it.

async function write(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("the browser refused");
}

/** Copies, and says on the button how it went. */
export async function copy(text, button) {
  const name = button.textContent;
  let said = "Copied";
  try {
    await write(text);
  } catch {
    said = "Not copied: select the text";
  }
  button.textContent = said;
  setTimeout(() => {
    button.textContent = name;
  }, 1600);
}
