// The panel of settings: the system prompt and how tokens are drawn. A field left empty is not sent, so that the model's own
// value holds.

import { make } from "./dom.js";
import { DEFAULTS } from "./store.js";

// [name, label, lowest, highest, step, hint]; without a highest there is no slider.
const NUMBERS = [
  ["temperature", "Temperature", 0, 2, 0.05, "0: always the likeliest token"],
  ["top_p", "Top p", 0, 1, 0.01, "the likeliest tokens that make up this share"],
  ["top_k", "Top k", 0, null, 1, "that many of the likeliest tokens; 0: all"],
  ["min_p", "Min p", 0, 1, 0.01, "at least this share of the likeliest one"],
  ["repetition_penalty", "Repetition penalty", 0.5, 2, 0.05, "1: none"],
  ["max_tokens", "Longest answer", 1, null, 1, "in tokens"],
  ["seed", "Seed", null, null, 1, "the same seed and text give the same answer"],
];

const byId = (id) => document.getElementById(id);

function numberField([name, label, low, high, step, hint], changed) {
  const number = make("input", { type: "number", id: `set-${name}`, min: low, max: high, step: step === 1 ? 1 : "any",
    placeholder: "auto", inputmode: step === 1 ? "numeric" : "decimal", "aria-describedby": `hint-${name}` });
  const slider = high === null ? null : make("input", { type: "range", min: low, max: high, step, "aria-label": label, tabindex: "-1" });
  const show = (value) => {
    number.value = value;
    if (slider) slider.value = value === "" ? (low + high) / 2 : value;
    slider?.classList.toggle("unset", value === "");
  };
  number.addEventListener("input", () => {
    if (slider) slider.value = number.value === "" ? (low + high) / 2 : number.value;
    slider?.classList.toggle("unset", number.value === "");
    changed(name, number.value);
  });
  slider?.addEventListener("input", () => {
    show(slider.value);
    changed(name, slider.value);
  });
  const element = make("div", { class: "field number" }, make("label", { for: `set-${name}` }, label), number, slider,
    make("small", { id: `hint-${name}` }, hint));
  return { element, show };
}

// changed(name, value) is called for every change. -> {show(settings)}
export function settingsPanel(changed) {
  const fields = Object.fromEntries(NUMBERS.map((spec) => [spec[0], numberField(spec, changed)]));
  byId("sampling").append(...Object.values(fields).map((f) => f.element));
  byId("set-system").addEventListener("input", (event) => changed("system", event.target.value));
  byId("set-thinking").addEventListener("change", (event) => changed("thinking", event.target.value));
  function show(settings) {
    const s = { ...DEFAULTS, ...settings };
    for (const [name, field] of Object.entries(fields)) field.show(s[name]);
    byId("set-system").value = s.system;
    byId("set-thinking").value = s.thinking;
  }
  byId("reset-settings").addEventListener("click", () => {
    for (const name of Object.keys(DEFAULTS)) if (name !== "model") changed(name, "");
    show({});
  });
  return { show };
}

// What of the settings goes into a request.
export function requestFields(settings) {
  const out = {};
  for (const [name, , , , step] of NUMBERS) {
    const value = Number.parseFloat(settings[name] ?? "");
    if (Number.isFinite(value)) out[name] = step === 1 ? Math.trunc(value) : value;
  }
  if (settings.thinking) out.chat_template_kwargs = { enable_thinking: settings.thinking === "on" };
  return out;
}
