// The chat: which conversation is open, what is being answered, and what the keys and buttons do.

import { make, icon } from "./dom.js";
import * as store from "./store.js";
import { ApiError, listModels, streamAnswer } from "./api.js";
import { activeVariant, fit, messageView } from "./message.js";
import { requestFields, settingsPanel } from "./settings.js";
import { sidebar } from "./sidebar.js";

const byId = (id) => document.getElementById(id);
const ui = Object.fromEntries(["messages", "scroll", "form", "prompt", "send", "status", "model", "notice", "settings", "shade"]
  .map((id) => [id, byId(id)]));

const app = {
  preferences: store.loadSettings(),
  models: [],
  chat: null,
  views: [],
  runs: new Map(), // by conversation: what is being answered goes on while another is looked at
  atEnd: true,
};

// ---- the open conversation ----

const actions = { edit: editMessage, regenerate, proceed, choose: chooseVariant };
const run = () => app.runs.get(app.chat.id);

function openChat(id) {
  app.chat = (id && (app.runs.get(id)?.chat ?? store.loadChat(id))) || store.newChat(app.preferences.last);
  showChat();
  closeSidebarOnPhone();
}

function showChat() {
  app.views = [];
  ui.messages.replaceChildren();
  for (const index of app.chat.messages.keys()) addView(index);
  if (app.chat.messages.length === 0) ui.messages.append(welcome());
  document.title = app.chat.title ? `${app.chat.title} · lockstep` : "lockstep";
  panel.show(app.chat.settings);
  showModel();
  list.show();
  app.atEnd = true;
  refresh();
  setStatus("");
  if (!matchMedia("(pointer: coarse)").matches) ui.prompt.focus();
}

const STARTERS = [
  ["Explain", "why the sky is blue, in three sentences"],
  ["Write", "a shell script that renames photos by date"],
  ["Derive", "the quadratic formula, step by step"],
  ["Compare", "tea and coffee in a table"],
];

function welcome() {
  const starter = ([verb, rest]) => make("button", { type: "button", class: "starter", onclick: () => {
    ui.prompt.value = `${verb} ${rest}`;
    promptChanged();
    ui.prompt.focus();
  } }, make("b", {}, verb), ` ${rest}`);
  const mark = icon("logo");
  mark.classList.add("logo");
  return make("section", { class: "welcome" }, mark, make("h1", {}, "What shall we work on?"),
    make("p", {}, "The model runs on this server. Nothing you write goes anywhere else."),
    make("div", { class: "starters" }, ...STARTERS.map(starter)));
}

function addView(index) {
  if (index === 0) ui.messages.replaceChildren();
  const view = messageView(app.chat.messages[index], index, actions);
  app.views[index] = view;
  ui.messages.append(view.element);
}

function dropViews(from) {
  for (const view of app.views.splice(from)) view.element.remove();
}

function refresh() {
  const running = run();
  for (const [index, view] of app.views.entries())
    view.update({ running: running?.index === index, last: index === app.views.length - 1 });
  ui.send.setAttribute("aria-label", running ? "Stop" : "Send");
  ui.send.title = running ? "Stop (Esc)" : "Send (Enter)";
  ui.send.querySelector("use").setAttribute("href", running ? "#icon-stop" : "#icon-send");
  ui.send.classList.toggle("stop", Boolean(running));
  promptChanged();
  followEnd();
}

function keep(chat) {
  if (!store.saveChat(chat)) notify("This browser has no more room: export your conversations and delete some.");
  list.show();
}

function titleFrom(text) {
  const line = text.trim().split("\n")[0];
  return line.length > 60 ? `${line.slice(0, 57).trimEnd()}…` : line;
}

// ---- asking ----

function send(text) {
  const { chat } = app;
  if (!chat.title) {
    chat.title = titleFrom(text);
    document.title = `${chat.title} · lockstep`;
  }
  chat.messages.push({ role: "user", content: text });
  addView(chat.messages.length - 1);
  chat.messages.push({ role: "assistant", variants: [], active: -1 });
  startVariant(chat.messages.length - 1);
}

function startVariant(index) {
  const message = app.chat.messages[index];
  message.variants.push({ content: "", reasoning: "", model: ui.model.value, stats: null, finish: "", error: "" });
  message.active = message.variants.length - 1;
  if (!app.views[index]) addView(index);
  app.atEnd = true;
  answer(app.chat, index);
}

function requestFor(chat, index, goesOn) {
  const messages = chat.settings.system ? [{ role: "system", content: chat.settings.system }] : [];
  for (const m of chat.messages.slice(0, index)) {
    const said = m.role === "user" ? m : activeVariant(m);
    if (said.error && !said.content) messages.pop(); // a question that was refused would be refused again
    else messages.push({ role: m.role, content: said.content });
  }
  if (goesOn) messages.push({ role: "assistant", content: activeVariant(chat.messages[index]).content });
  return { model: ui.model.value, messages, ...requestFields(chat.settings) };
}

// Streams into the active version of message `index` until it ends, fails or is stopped.
async function answer(chat, index, goesOn = false) {
  const variant = activeVariant(chat.messages[index]);
  const meter = { begun: performance.now(), first: 0, last: 0, pieces: 0 };
  const current = { chat, index, controller: new AbortController(), meter, shown: -Infinity };
  app.runs.set(chat.id, current);
  Object.assign(variant, { finish: "", error: "" });
  chat.updated = Date.now();
  keep(chat);
  notify("");
  refresh();
  showRate(current);
  announce("Answering");
  const piece = (name) => (text) => takePiece(current, variant, name, text);
  try {
    const end = await streamAnswer(requestFor(chat, index, goesOn), current.controller.signal,
      { text: piece("content"), reasoning: piece("reasoning") });
    variant.finish = end.finish;
    current.usage = end.usage;
  } catch (error) {
    if (error.name === "AbortError") variant.finish = "stopped";
    else failed(variant, error);
  }
  finish(current, variant);
}

function takePiece(current, variant, name, text) {
  const { meter } = current;
  meter.last = performance.now();
  if (meter.pieces++ === 0) meter.first = meter.last;
  if (name === "content" && variant.reasoning && !variant.content) variant.thoughtFor = meter.last - meter.first;
  variant[name] += text;
  scheduleDraw(current);
}

// What came since the last frame is drawn at once.
function scheduleDraw(current) {
  if (current.scheduled) return;
  current.scheduled = true;
  requestAnimationFrame(() => {
    current.scheduled = false;
    if (app.runs.get(current.chat.id) !== current || current.chat !== app.chat) return;
    app.views[current.index]?.update({ running: true, last: true });
    showRate(current);
    followEnd();
  });
}

// Of pieces that came together nothing can be said.
function rateOf({ first, last }, tokens) {
  return tokens > 2 && last - first > 50 ? ((tokens - 1) * 1000) / (last - first) : 0;
}

function showRate(current) {
  if (current.meter.last - current.shown < 250) return; // a number that flickers is not read
  current.shown = current.meter.last;
  const rate = rateOf(current.meter, current.meter.pieces);
  if (current.meter.pieces === 0) setStatus("Reading…");
  else setStatus(rate > 0 ? `${rate.toFixed(1)} tokens/s` : "");
}

function finish(current, variant) {
  const { chat, meter, usage } = current;
  const tokens = usage?.completion_tokens ?? meter.pieces;
  variant.stats = { tokens, rate: rateOf(meter, tokens), first: meter.pieces ? meter.first - meter.begun : 0 };
  app.runs.delete(chat.id);
  chat.updated = Date.now();
  if (store.listChats().some((c) => c.id === chat.id)) keep(chat);
  if (chat !== app.chat) return;
  refresh();
  announce(variant.error || (variant.finish === "stopped" ? "Stopped" : "The answer is complete"));
  if (usage) showContext(chat, usage, variant.model);
  else setStatus("");
}

async function showContext(chat, usage, model) {
  if (!describeContext(usage, model)) await loadModels();
  if (chat === app.chat && !run()) setStatus(describeContext(usage, model));
}

function describeContext(usage, model) {
  const room = app.models.find((m) => m.id === model)?.max_model_len;
  return room ? `${usage.total_tokens.toLocaleString("en")} of ${room.toLocaleString("en")} tokens of context used` : "";
}

function failed(variant, error) {
  variant.error = error instanceof ApiError ? error.message : `The page failed: ${error.message}`;
  if (error.status === 401) askForKey();
}

function stop() {
  run()?.controller.abort();
}

// ---- what can be done with a message ----

function regenerate(index) {
  if (run()) return;
  app.chat.messages.splice(index + 1);
  dropViews(index + 1);
  startVariant(index);
}

function proceed(index) {
  if (!run()) answer(app.chat, index, true);
}

function editMessage(index, text) {
  if (run()) return;
  const message = app.chat.messages[index];
  if (message.role === "assistant") {
    activeVariant(message).content = text;
    keep(app.chat);
    refresh();
    return;
  }
  app.chat.messages.splice(index);
  dropViews(index);
  if (index === 0) app.chat.title = "";
  send(text);
}

function chooseVariant(index, variant) {
  app.chat.messages[index].active = variant;
  keep(app.chat);
  refresh();
}

// ---- the key, the models, notices ----

function askForKey() {
  byId("key-why").textContent = store.loadKey() ? "The server does not know this key." : "This server asks for a key.";
  byId("key").value = store.loadKey();
  if (!byId("key-dialog").open) byId("key-dialog").showModal();
}

byId("key-form").addEventListener("submit", () => {
  store.saveKey(byId("key").value.trim(), byId("key-keep").checked);
  loadModels();
});
byId("key-cancel").addEventListener("click", () => byId("key-dialog").close());

async function loadModels() {
  try {
    const all = await listModels();
    app.models = all.filter((m) => m.tasks.includes("chat"));
    notify(app.models.length > 0 ? "" : `${all.map((m) => m.id).join(", ")}: no chat template, or made for embeddings or reranking only, so there is nobody to chat with here.`);
  } catch (error) {
    if (error.status === 401) {
      askForKey();
      notify("This server asks for a key.", "Enter it", askForKey);
    } else notify(error.message, "Try again", loadModels);
  }
  ui.model.replaceChildren(...app.models.map((m) => make("option", { value: m.id }, m.id)));
  showModel();
  promptChanged();
}

function showModel() {
  const wanted = app.chat.settings.model;
  if (app.models.some((m) => m.id === wanted)) ui.model.value = wanted;
  else if (app.models.length > 0) ui.model.value = app.models[0].id;
}

// With a button, where something can be done about it.
function notify(text, verb, act) {
  ui.notice.replaceChildren(text, ...(verb ? [" ", make("button", { type: "button", class: "link", onclick: act }, verb)] : []));
  ui.notice.hidden = text === "";
}

function setStatus(text) {
  ui.status.textContent = text;
}

// For those who hear the page: when something begins and ends, not each token.
function announce(text) {
  byId("announce").textContent = text;
}

function settingChanged(name, value) {
  app.chat.settings[name] = value;
  app.preferences.last = { ...app.chat.settings };
  store.saveSettings(app.preferences);
  if (app.chat.messages.length > 0) keep(app.chat);
}

// ---- the composer ----

function promptChanged() {
  fit(ui.prompt, 0.4);
  ui.send.disabled = !run() && (ui.prompt.value.trim() === "" || app.models.length === 0);
}

ui.form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (run()) {
    stop();
    return;
  }
  const text = ui.prompt.value.trim();
  if (text === "" || app.models.length === 0) return;
  ui.prompt.value = "";
  send(text);
});

ui.prompt.addEventListener("input", promptChanged);
ui.prompt.addEventListener("keydown", (event) => {
  const phone = matchMedia("(pointer: coarse)").matches && innerWidth < 800;
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !phone) {
    event.preventDefault();
    if (!run()) ui.form.requestSubmit();
  } else if (event.key === "ArrowUp" && ui.prompt.value === "" && !run()) {
    const index = app.chat.messages.findLastIndex((m) => m.role === "user");
    if (index < 0) return;
    event.preventDefault();
    app.views[index].edit();
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (run()) stop();
    else if (!ui.settings.hidden) toggleSettings(false);
    else closeSidebarOnPhone();
  }
  if (event.key.toLowerCase() === "o" && event.shiftKey && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    openChat(null);
  }
});

// ---- scrolling: the end is followed until the reader goes elsewhere ----

function followEnd() {
  if (app.atEnd) ui.scroll.scrollTop = ui.scroll.scrollHeight;
  byId("to-end").hidden = app.atEnd;
}

ui.scroll.addEventListener("scroll", () => {
  app.atEnd = ui.scroll.scrollHeight - ui.scroll.scrollTop - ui.scroll.clientHeight < 48;
  byId("to-end").hidden = app.atEnd;
});
byId("to-end").addEventListener("click", () => {
  app.atEnd = true;
  followEnd();
});

// ---- panels and theme ----

const isPhone = () => matchMedia("(max-width: 800px)").matches;

function toggleSidebar(open) {
  document.body.classList.toggle(isPhone() ? "sidebar-open" : "sidebar-shut", isPhone() ? open : !open);
  ui.shade.hidden = !(isPhone() && open);
}

function closeSidebarOnPhone() {
  if (isPhone()) toggleSidebar(false);
}

function toggleSettings(open) {
  ui.settings.hidden = !open;
  document.body.classList.toggle("settings-open", open);
  byId("show-settings").setAttribute("aria-expanded", String(open));
  byId("show-settings").focus();
}

byId("show-sidebar").addEventListener("click", () => {
  const body = document.body.classList;
  toggleSidebar(isPhone() ? !body.contains("sidebar-open") : body.contains("sidebar-shut"));
});
byId("hide-sidebar").addEventListener("click", () => toggleSidebar(false));
ui.shade.addEventListener("click", () => toggleSidebar(false));
byId("show-settings").addEventListener("click", () => toggleSettings(ui.settings.hidden));
byId("hide-settings").addEventListener("click", () => toggleSettings(false));
byId("new-chat").addEventListener("click", () => openChat(null));
ui.model.addEventListener("change", () => settingChanged("model", ui.model.value));

const systemDark = matchMedia("(prefers-color-scheme: dark)");

function showTheme() {
  const { theme } = app.preferences;
  const dark = theme ? theme === "dark" : systemDark.matches;
  document.documentElement.dataset.theme = theme || "auto";
  byId("theme").querySelector("use").setAttribute("href", dark ? "#icon-sun" : "#icon-moon");
  return dark;
}

byId("theme").addEventListener("click", () => {
  app.preferences.theme = showTheme() ? "light" : "dark";
  store.saveSettings(app.preferences);
  showTheme();
});
systemDark.addEventListener("change", showTheme);

// ---- the beginning ----

const panel = settingsPanel(settingChanged);
const list = sidebar({
  current: () => app.chat?.id,
  open: openChat,
  notify,
  renamed(id, title) {
    const chat = id === app.chat.id ? app.chat : app.runs.get(id)?.chat ?? store.loadChat(id);
    if (!chat) return;
    chat.title = title;
    store.saveChat(chat);
  },
  deleted(id) {
    app.runs.get(id)?.controller.abort();
    store.deleteChat(id);
    if (id === app.chat.id) openChat(null);
    list.show();
  },
});

showTheme();
openChat(null);
loadModels();
