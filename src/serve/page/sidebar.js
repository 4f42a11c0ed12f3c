// The list of conversations: open, find, rename, delete, export, import.

import { make, iconButton } from "./dom.js";
import * as store from "./store.js";

const byId = (id) => document.getElementById(id);
const DAY = 86400000;

function groupOf(time) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (time >= today) return "Today";
  if (time >= today - DAY) return "Yesterday";
  if (time >= today - 7 * DAY) return "This week";
  return "Earlier";
}

// hooks: current() -> id, open(id), renamed(id, title), deleted(id), notify(text)
export function sidebar(hooks) {
  const list = byId("chats");
  const filter = byId("filter");

  function rename(id, title, link) {
    const field = make("input", { class: "rename", "aria-label": "New name", maxlength: "120" });
    let open = true;
    const finish = (keep) => {
      if (!open) return;
      open = false;
      if (keep && field.value.trim()) hooks.renamed(id, field.value.trim());
      show();
    };
    field.value = title;
    field.addEventListener("blur", () => finish(true));
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") finish(true);
      if (event.key === "Escape") finish(false);
      event.stopPropagation();
    });
    link.replaceWith(field);
    field.focus();
    field.select();
  }

  function remove(id, title) {
    const dialog = byId("delete-dialog");
    byId("delete-what").textContent = `“${title}” is kept in this browser only: it can not be brought back.`;
    dialog.returnValue = "no";
    dialog.onclose = () => dialog.returnValue === "yes" && hooks.deleted(id);
    dialog.showModal();
  }

  function item({ id, title }) {
    const shown = title || "New conversation";
    const link = make("button", { type: "button", class: "chat", "aria-current": id === hooks.current() ? "page" : null,
      onclick: () => hooks.open(id), title: shown }, shown);
    return make("li", {}, link,
      iconButton("edit", `Rename ${shown}`, () => rename(id, shown, link)),
      iconButton("trash", `Delete ${shown}`, () => remove(id, shown)));
  }

  function show() {
    const wanted = filter.value.trim().toLowerCase();
    const chats = store.listChats().filter((c) => c.title.toLowerCase().includes(wanted));
    const rows = [];
    let group = null;
    for (const chat of chats) {
      const its = groupOf(chat.updated);
      if (its !== group) rows.push(make("li", { class: "group" }, its));
      group = its;
      rows.push(item(chat));
    }
    if (rows.length === 0) rows.push(make("li", { class: "empty" }, wanted ? "Nothing found" : "Conversations stay in this browser."));
    list.replaceChildren(...rows);
  }

  function exportAll() {
    const text = store.exportChats(store.listChats().map((c) => c.id));
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const day = new Date().toISOString().slice(0, 10);
    make("a", { href: address, download: `lockstep-conversations-${day}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  async function importFile(event) {
    const file = event.target.files[0];
    if (!file) return;
    try {
      const n = store.importChats(await file.text());
      hooks.notify(`${n} conversation${n === 1 ? "" : "s"} imported.`);
    } catch (error) {
      hooks.notify(`Nothing was imported: ${error.message}.`);
    }
    event.target.value = "";
    show();
  }

  filter.addEventListener("input", show);
  byId("export-chats").addEventListener("click", exportAll);
  byId("import-chats").addEventListener("click", () => byId("import-file").click());
  byId("import-file").addEventListener("change", importFile);
  window.addEventListener("storage", show);
  return { show };
}
