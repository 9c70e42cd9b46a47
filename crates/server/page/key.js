// The access key: kept in this tab's session storage, asked for when the server wants one.

import { byId } from "./dom.js";

const PLACE = "tandem-key";
let held = null;

/** The key in use, or the empty string. */
export function key() {
  if (held === null) {
    try {
      held = sessionStorage.getItem(PLACE) ?? "";
    } catch {
      held = "";
    }
  }
  return held;
}

function keep(value) {
  held = value;
  try {
    if (value) sessionStorage.setItem(PLACE, value);
    else sessionStorage.removeItem(PLACE);
  } catch {
    // Storage can be switched off; then the key lasts as long as the page.
  }
}

let asking = null;

/** Opens the dialog, with what was wrong with the last key; resolves to whether a key was given. Two callers share one dialog. */
export function askForKey(reason = "") {
  asking ??= new Promise((resolve) => {
    const dialog = byId("key-dialog");
    const field = byId("key");
    byId("key-words").textContent = `${reason || "Ask whoever runs the server for it."} The key is kept until this tab is closed.`;
    field.value = "";
    dialog.returnValue = "";
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        const given = dialog.returnValue === "ok";
        if (given) keep(field.value.trim());
        field.value = "";
        resolve(given);
      },
      { once: true },
    );
    byId("key-cancel").onclick = () => dialog.close("cancel");
    dialog.showModal();
    field.focus();
  });
  return asking;
}
