// The page: asks the server what it is, then wires chat, comparison, figures and settings.

import { byId } from "./dom.js";
import { modelName, pairName, pairOf } from "./format.js";
import { get } from "./stream.js";
import { askForKey, key } from "./key.js";
import { Problem } from "./problems.js";
import { problemNotice } from "./notices.js";
import { Attachment } from "./attach.js";
import { Chats } from "./chats.js";
import { CloudState } from "./cloudstate.js";
import { Store } from "./store.js";
import { Settings } from "./settings.js";
import { Figures } from "./figures.js";
import { Chat } from "./chat.js";
import { Compare } from "./compare.js";
import { watchTokens } from "./tokens.js";
import { watchCard, closeCard } from "./card.js";

// What the server says of the pair that is chosen.
let server = null;
let about = null;
let running = false;
const prompt = byId("prompt");
const settings = new Settings({ changed: () => compare.blank(), pairChanged: () => use(settings.pair) });
const cloud = new CloudState(() => settings.pair);
const store = new Store();
const attachment = new Attachment(() => server?.limits?.context);

function busy(on) {
  running = on;
  cloud.busy(on);
  const had = document.activeElement;
  byId("send").hidden = on;
  byId("stop").hidden = !on;
  // The button under the focus went away.
  if (had === byId("send") || had === byId("stop")) prompt.focus();
}

const place = () => server?.cloud?.place;
const figures = new Figures(byId("figures"), { place, total: () => chat.total() });
const chat = new Chat({ settings, figures, store, busy, showFigures: () => narrow.matches && show("figures") });
const compare = new Compare({ settings, busy, place });
new Chats({
  chat,
  store,
  server: () => server,
  opened: () => {
    show("chat");
    byId("chat").focus();
  },
});
const narrow = matchMedia("(max-width: 959px)");

function show(view) {
  closeCard();
  document.body.dataset.view = view;
  for (const button of document.querySelectorAll("[data-goto]")) {
    if (button.dataset.goto === view) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  settings.compare(view === "compare");
  byId("send").textContent = view === "compare" ? "Compare" : "Send";
}

function grow() {
  prompt.style.height = "auto";
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}

function submit() {
  const text = prompt.value.trim();
  if ((text === "" && !attachment.any) || running || !settings.check()) return;
  const message = { text, file: attachment.take() };
  prompt.value = "";
  grow();
  if (document.body.dataset.view === "compare") compare.run(message);
  else {
    show("chat");
    chat.send(message);
  }
}

function stop() {
  chat.stop();
  compare.stop();
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
prompt.addEventListener("input", grow);
prompt.addEventListener("keydown", (event) => {
  // An input method uses Enter to take its proposal.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
byId("stop").addEventListener("click", stop);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (!closeCard()) stop();
});
for (const button of document.querySelectorAll("[data-goto]")) {
  button.addEventListener("click", () => show(button.dataset.goto));
}
// A window that became wide shows the figures beside the chat anyway.
narrow.addEventListener("change", () => {
  if (!narrow.matches && document.body.dataset.view === "figures") show("chat");
});
byId("new-chat").addEventListener("click", () => {
  chat.clear();
  show("chat");
  prompt.focus();
});
for (const example of document.querySelectorAll(".example")) {
  example.addEventListener("click", () => {
    prompt.value = example.textContent;
    submit();
  });
}
byId("set-key").addEventListener("click", async () => {
  if (await askForKey()) meet();
});
// A tab that is closed keeps what an answer has so far.
addEventListener("pagehide", () => chat.keepRunning());
watchTokens(document.body);
watchCard();

/** Asks the server what it is. Without that the page still works, with settings of its own. */
async function meet() {
  const status = byId("status");
  status.replaceChildren();
  try {
    about = await get("v1/tandem");
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.kind === "key" && (await askForKey(key() && error.message))) return meet();
    byId("pair").textContent = "not connected";
    status.replaceChildren(problemNotice(error, meet));
    return;
  }
  settings.offer(about.pairs);
  use(settings.pair);
}

/** The next message is for this pair of the server's; undefined for its own. */
function use(name) {
  server = { version: about.version, ...pairOf(about, name) };
  byId("pair").textContent = pairName(server, modelName);
  byId("pair").title = pairName(server);
  settings.adopt(server);
  cloud.show(server.cloud_state);
}

meet();
