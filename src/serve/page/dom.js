// Elements are made one by one and text is only ever set as text: that is how nothing a model writes can become markup.

const SVG = "http://www.w3.org/2000/svg";

// make("a", {href: "/", class: "b", onclick: f}, "text", node, ...) -> element. null and false among the children are left out.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// A drawing of index.html's collection, hidden from screen readers: the button around it has the name.
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

export function iconButton(name, label, onclick, more = {}) {
  return make("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...more }, icon(name));
}

// The clipboard is for secure pages only; over plain HTTP from another machine the old way is left.
export async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // refused: try the old way
    }
  }
  const area = make("textarea", { class: "offscreen", "aria-hidden": "true" });
  const focused = document.activeElement;
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}

// Shows on the button itself that it worked, for a moment.
export async function copyFrom(button, text) {
  const done = await copyText(text);
  const use = button.querySelector("use");
  use.setAttribute("href", done ? "#icon-check" : "#icon-close");
  button.classList.toggle("done", done);
  setTimeout(() => {
    use.setAttribute("href", "#icon-copy");
    button.classList.remove("done");
  }, 1500);
  return done;
}
