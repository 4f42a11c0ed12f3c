// Conversations and settings, kept in this browser: one entry for each conversation and one that lists them.
//
// A conversation: {id, title, created, updated, settings, messages}. A message: {role: "user", content} or
// {role: "assistant", variants: [{content, reasoning, model, stats, finish, error}], active}.

const LIST = "lockstep.chats";
const CHAT = "lockstep.chat.";
const SETTINGS = "lockstep.settings";
const KEY = "lockstep.key";

function read(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

// False when the browser's room is used up.
function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

const newId = () => [...crypto.getRandomValues(new Uint8Array(9))].map((b) => b.toString(36).padStart(2, "0")).join("");

// [{id, title, updated}], the latest first.
export function listChats() {
  const list = read(LIST, []);
  return Array.isArray(list) ? list.filter((c) => typeof c?.id === "string").sort((a, b) => b.updated - a.updated) : [];
}

export function newChat(settings) {
  const now = Date.now();
  return { id: newId(), title: "", created: now, updated: now, settings: { ...settings }, messages: [] };
}

export function loadChat(id) {
  const chat = read(CHAT + id, null);
  return chat ? checkedChat(chat, id) : null;
}

export function saveChat(chat) {
  const { id, title, updated } = chat;
  return write(CHAT + id, chat) && write(LIST, [...listChats().filter((c) => c.id !== id), { id, title, updated }]);
}

export function deleteChat(id) {
  localStorage.removeItem(CHAT + id);
  write(LIST, listChats().filter((c) => c.id !== id));
}

// ---- what comes from a file is checked field by field ----

const textOf = (value) => (typeof value === "string" ? value : "");

function checkedVariant(v) {
  const stats = v?.stats && typeof v.stats === "object" ? v.stats : null;
  return {
    content: textOf(v?.content), reasoning: textOf(v?.reasoning), model: textOf(v?.model), finish: textOf(v?.finish),
    error: textOf(v?.error), thoughtFor: Number(v?.thoughtFor) || 0,
    stats: stats && { tokens: Number(stats.tokens) || 0, rate: Number(stats.rate) || 0, first: Number(stats.first) || 0 },
  };
}

function checkedMessage(m) {
  if (m?.role === "user") return { role: "user", content: textOf(m.content) };
  if (m?.role !== "assistant") return null;
  const variants = (Array.isArray(m.variants) ? m.variants : [m]).map(checkedVariant);
  if (variants.length === 0) return null;
  const active = Number.isInteger(m.active) && m.active >= 0 && m.active < variants.length ? m.active : variants.length - 1;
  return { role: "assistant", variants, active };
}

function checkedChat(chat, id) {
  const settings = {};
  for (const [name, value] of Object.entries(chat.settings ?? {}))
    if (Object.hasOwn(DEFAULTS, name) && ["string", "number"].includes(typeof value)) settings[name] = value;
  return {
    id, title: textOf(chat.title), created: Number(chat.created) || Date.now(), updated: Number(chat.updated) || Date.now(), settings,
    messages: (Array.isArray(chat.messages) ? chat.messages : []).map(checkedMessage).filter(Boolean),
  };
}

export function exportChats(ids) {
  return JSON.stringify({ format: "lockstep-chats", version: 1, chats: ids.map(loadChat).filter(Boolean) }, null, 2);
}

// The number of conversations taken from the text of a file, each under an id of its own; throws with the reason.
export function importChats(text) {
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Error("this file is not JSON");
  }
  if (data?.format !== "lockstep-chats" || !Array.isArray(data.chats)) throw new Error("this file holds no conversations of lockstep");
  for (const chat of data.chats)
    if (chat && !saveChat(checkedChat(chat, newId()))) throw new Error("there is no more room in this browser");
  return data.chats.length;
}

// ---- settings ----

// What an empty text stands for is left to the model.
export const DEFAULTS = {
  model: "", system: "", temperature: "", top_p: "", top_k: "", min_p: "", repetition_penalty: "", max_tokens: "", seed: "", thinking: "",
};

export const loadSettings = () => ({ theme: "", last: {}, ...read(SETTINGS, {}) });
export const saveSettings = (settings) => write(SETTINGS, settings);

let sessionKey = ""; // where the browser stores nothing

export function loadKey() {
  try {
    return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? sessionKey;
  } catch {
    return sessionKey;
  }
}

// Until the tab closes, or, when wanted, for as long as the browser keeps it.
export function saveKey(key, keep) {
  sessionKey = key;
  try {
    localStorage.removeItem(KEY);
    sessionStorage.removeItem(KEY);
    if (key) (keep ? localStorage : sessionStorage).setItem(KEY, key);
  } catch {
    // then it lasts as long as the page
  }
}
