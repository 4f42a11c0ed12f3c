// One message of a conversation as the page shows it. The view is made once and updated while an answer streams.

import { make, icon, iconButton, copyFrom } from "./dom.js";
import { renderMarkdown } from "./markdown.js";

export const activeVariant = (message) => message.variants[message.active];

const seconds = (ms) => (ms < 9950 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`);

export function describeStats(stats) {
  if (!stats || !stats.tokens) return "";
  const parts = [`${stats.tokens.toLocaleString("en")} token${stats.tokens === 1 ? "" : "s"}`];
  if (stats.rate > 0) parts.push(`${stats.rate.toFixed(1)} tokens/s`);
  if (stats.first > 0) parts.push(`first after ${seconds(stats.first)}`);
  return parts.join(" · ");
}

// actions: edit(index, text), regenerate(index), proceed(index), choose(index, variant). `last`: nothing follows it.
export function messageView(message, index, actions) {
  return message.role === "user" ? userView(message, index, actions) : assistantView(message, index, actions);
}

function userView(message, index, actions) {
  const body = make("div", { class: "bubble" }, message.content);
  const copy = iconButton("copy", "Copy", () => copyFrom(copy, message.content));
  const edit = iconButton("edit", "Edit", () => openEditor(element, body, message.content, "Send", (text) => actions.edit(index, text)));
  const element = make("article", { class: "message user", "aria-label": "You" }, body, make("div", { class: "tools" }, copy, edit));
  return { element, update() {}, edit: () => edit.click() };
}

// A text field in the place of `body` until it is sent or given up.
function openEditor(element, body, text, verb, done) {
  if (element.classList.contains("editing")) return;
  const field = make("textarea", { class: "editor", "aria-label": "Edit the message", rows: "2" });
  const close = () => {
    editor.replaceWith(body);
    element.classList.remove("editing");
  };
  const finish = () => {
    close();
    if (field.value.trim() !== "") done(field.value);
  };
  const editor = make("div", { class: "edit-box" }, field, make("div", { class: "buttons" },
    make("button", { type: "button", class: "plain", onclick: close }, "Cancel"),
    make("button", { type: "button", class: "primary", onclick: finish }, verb)));
  field.value = text;
  field.addEventListener("input", () => fit(field, 0.6));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) finish();
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  element.classList.add("editing");
  body.replaceWith(editor);
  fit(field, 0.6);
  field.focus();
  field.setSelectionRange(text.length, text.length);
}

// Makes a field as high as its text, up to a part of the window.
export function fit(field, most) {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight + 2, window.innerHeight * most)}px`;
}

// Folded, unless the reader opens it; how long it took is said when it is over.
function thoughtView() {
  const label = make("span", {}, "Thinking");
  const body = make("div", { class: "markdown" });
  const element = make("details", { class: "thought", hidden: true }, make("summary", {}, icon("thought"), label), body);
  return {
    element,
    update(variant, running) {
      const goes = running && !variant.content;
      element.hidden = !variant.reasoning;
      element.classList.toggle("running", goes);
      label.textContent = goes ? "Thinking…" : variant.thoughtFor > 500 ? `Thought for ${seconds(variant.thoughtFor)}` : "Thoughts";
      if (variant.reasoning) renderMarkdown(body, variant.reasoning);
    },
  };
}

const ENDINGS = { length: "The answer reached its limit of tokens.", stopped: "Stopped." };

function assistantView(message, index, actions) {
  const thought = thoughtView();
  const body = make("div", { class: "markdown body" });
  const wait = make("div", { class: "wait", "aria-hidden": "true" }, make("i"), make("i"), make("i"));
  const note = make("p", { class: "note", hidden: true });
  const copy = iconButton("copy", "Copy the answer", () => copyFrom(copy, activeVariant(message).content));
  const again = iconButton("again", "Regenerate", () => actions.regenerate(index));
  const proceed = iconButton("more", "Continue the answer", () => actions.proceed(index));
  const edit = iconButton("edit", "Edit the answer", () => openEditor(element, body, activeVariant(message).content, "Save",
    (text) => actions.edit(index, text)));
  const back = iconButton("left", "Earlier version", () => actions.choose(index, message.active - 1));
  const forth = iconButton("right", "Later version", () => actions.choose(index, message.active + 1));
  const count = make("span", { class: "count" });
  const pager = make("span", { class: "pager" }, back, count, forth);
  const stats = make("span", { class: "stats" });
  const tools = make("div", { class: "tools" }, pager, copy, again, proceed, edit, stats);
  const element = make("article", { class: "message assistant", "aria-label": "Answer" }, thought.element, body, wait, note, tools);

  function update({ running, last }) {
    const v = activeVariant(message);
    thought.update(v, running);
    renderMarkdown(body, v.content);
    element.classList.toggle("running", running);
    element.classList.toggle("last", last);
    element.setAttribute("aria-busy", String(running));
    wait.hidden = !running || v.content !== "" || v.reasoning !== "";
    note.textContent = v.error || ENDINGS[v.finish] || "";
    note.hidden = running || note.textContent === "";
    note.classList.toggle("error", v.error !== "");
    tools.hidden = running;
    copy.hidden = edit.hidden = v.content === "";
    pager.hidden = !last || message.variants.length < 2;
    count.textContent = `${message.active + 1} / ${message.variants.length}`;
    back.disabled = message.active === 0;
    forth.disabled = message.active === message.variants.length - 1;
    proceed.hidden = !last || v.content === "" || !(v.finish in ENDINGS || v.error);
    stats.textContent = [v.model, describeStats(v.stats)].filter(Boolean).join(" · ");
  }
  return { element, update };
}
