// The dialog of conversations: this one as a file, and those that are kept in the browser.

import { make, byId } from "./dom.js";
import { bytes, count } from "./format.js";
import { MOST } from "./store.js";
import { download, fileName, json, markdown } from "./export.js";

const DELETE_ALL = "Delete all";
const KEPT = `Kept in this browser only. Above ${bytes(MOST)} in all, the oldest are removed.`;
const REASONS = {
  refused: "This browser does not let the page keep anything: the conversation ends with the tab. You can save it as a file.",
  long: "This conversation is too long to be kept in the browser. You can save it as a file.",
};

/** A time as people here write it. */
const when = (time) => new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });

export class Chats {
  /** `opened` is called when another conversation is shown. */
  constructor({ chat, store, server, opened }) {
    Object.assign(this, { chat, store, server, opened });
    this.dialog = byId("chats-dialog");
    byId("chats").addEventListener("click", () => this.open());
    byId("chats-close").addEventListener("click", () => this.dialog.close());
    byId("save-markdown").addEventListener("click", () => this.#save("md", "text/markdown", markdown));
    byId("save-json").addEventListener("click", () => this.#save("json", "application/json", json));
    byId("clear-chats").addEventListener("click", () => this.#clear());
  }

  open() {
    this.#draw();
    this.dialog.showModal();
  }

  #save(ending, type, write) {
    const { title, turns } = this.chat;
    download(fileName(title, ending), type, write({ title, turns, server: this.server() }));
  }

  #draw() {
    const list = this.store.list();
    const empty = this.chat.turns.length === 0;
    byId("save-markdown").disabled = empty;
    byId("save-json").disabled = empty;
    byId("clear-chats").disabled = list.length === 0;
    byId("clear-chats").textContent = DELETE_ALL;
    const reason = this.store.works ? this.chat.unkept : "refused";
    byId("chats-words").textContent = REASONS[reason] ?? (list.length === 0 ? `None yet. ${KEPT}` : KEPT);
    byId("chats-list").replaceChildren(...list.map((each) => this.#row(each)));
  }

  #row({ id, title, turns, changed }) {
    const current = id === this.chat.id;
    const facts = [current && "shown now", count(turns, "message"), when(changed)].filter(Boolean).join(" · ");
    return make(
      "li",
      {},
      make(
        "button",
        { type: "button", class: "quiet kept", "aria-current": current && "true", onclick: () => this.#show(id) },
        make("span", { class: "name", dir: "auto" }, title),
        make("span", { class: "muted" }, facts),
      ),
      make("button", { type: "button", class: "quiet small", "aria-label": `Delete: ${title}`, onclick: () => this.#remove(id) }, "Delete"),
    );
  }

  #show(id) {
    if (id === this.chat.id) {
      this.dialog.close();
      this.opened();
      return;
    }
    const turns = this.store.load(id);
    if (turns === null || !this.chat.restore(id, turns)) {
      this.store.remove(id);
      this.#draw();
      byId("chats-words").textContent = "That conversation could not be read any more, so it was removed from the list.";
      byId("chats-close").focus();
      return;
    }
    this.dialog.close();
    this.opened();
  }

  #remove(id) {
    this.store.remove(id);
    // Else its next answer would bring it back.
    if (id === this.chat.id) this.chat.forget();
    this.#draw();
    (this.dialog.querySelector(".kept") ?? byId("chats-close")).focus();
  }

  /** Asks once more on the button itself. */
  #clear() {
    const button = byId("clear-chats");
    if (button.textContent === DELETE_ALL) {
      button.textContent = "Really delete all?";
      return;
    }
    this.store.clear();
    this.chat.forget();
    this.#draw();
    byId("chats-close").focus();
  }
}
