// Markdown as chat models write it, to DOM nodes. The text is split into top-level blocks first, so that while an answer
// streams only its last block is made anew. Raw HTML is text; images are shown as links, for nothing is loaded.

import { make, iconButton, copyFrom } from "./dom.js";
import { highlight } from "./highlight.js";
import { mathNode } from "./math.js";

const MAX_DEPTH = 12;
const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/;
const QUOTE = /^ {0,3}>\s?/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const MATH_OPEN = /^\s*(\$\$|\\\[)/;

// ---- blocks ----

function isTableAt(lines, i) {
  return i + 1 < lines.length && lines[i].includes("|") && lines[i + 1].includes("-") && TABLE_RULE.test(lines[i + 1]) &&
    cells(lines[i]).length === cells(lines[i + 1]).length;
}

function beginsBlock(lines, i) {
  const line = lines[i];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || MATH_OPEN.test(line) ||
    isTableAt(lines, i);
}

// The index behind the block that begins at line i.
function endOfBlock(lines, i) {
  const fence = FENCE.exec(lines[i]);
  if (fence) return endOfFence(lines, i, fence);
  if (MATH_OPEN.test(lines[i])) return endOfMath(lines, i);
  if (HEADING.test(lines[i]) || RULE.test(lines[i])) return i + 1;
  if (QUOTE.test(lines[i])) return endWhile(lines, i, (line) => line.trim() !== "");
  if (isTableAt(lines, i)) return endWhile(lines, i, (line) => line.includes("|"));
  if (ITEM.test(lines[i])) return endOfList(lines, i);
  let end = i + 1;
  while (end < lines.length && lines[end].trim() !== "" && !beginsBlock(lines, end) && !ITEM.test(lines[end])) end++;
  return end;
}

function endWhile(lines, i, holds) {
  let end = i + 1;
  while (end < lines.length && holds(lines[end])) end++;
  return end;
}

function endOfFence(lines, i, fence) {
  const mark = fence[2];
  for (let end = i + 1; end < lines.length; end++) {
    const text = lines[end].trim();
    if (text.startsWith(mark) && text.replaceAll(mark[0], "") === "") return end + 1;
  }
  return lines.length;
}

function endOfMath(lines, i) {
  const close = MATH_OPEN.exec(lines[i])[1] === "$$" ? "$$" : "\\]";
  const first = lines[i].replace(MATH_OPEN, "");
  if (first.includes(close)) return i + 1;
  for (let end = i + 1; end < lines.length; end++) if (lines[end].includes(close)) return end + 1;
  return lines.length;
}

// A list goes on over empty lines as long as what follows is an item or is indented.
function endOfList(lines, i) {
  const indent = ITEM.exec(lines[i])[1].length;
  let end = i + 1;
  while (end < lines.length) {
    const line = lines[end];
    if (line.trim() === "") {
      const next = end + 1;
      const goes = next < lines.length && (/^\s{2,}\S/.test(lines[next]) || sameList(lines[i], lines[next]));
      if (!goes) return end;
      end = next;
      continue;
    }
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent && !sameList(lines[i], line)) return end;
    if (!item && !/^\s{2,}\S/.test(line) && (beginsBlock(lines, end) || lines[end - 1].trim() === "")) return end;
    if (RULE.test(line) && !/^\s{2,}/.test(line)) return end;
    end++;
  }
  return end;
}

function sameList(a, b) {
  const first = ITEM.exec(a);
  const second = ITEM.exec(b);
  return first && second && /\d/.test(first[2]) === /\d/.test(second[2]);
}

// The text's top-level blocks, each with its lines.
export function splitBlocks(text) {
  const lines = text.replaceAll("\r\n", "\n").replaceAll("\t", "    ").split("\n");
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    if (lines[i].trim() === "") {
      i++;
      continue;
    }
    const end = endOfBlock(lines, i);
    blocks.push(lines.slice(i, end));
    i = end;
  }
  return blocks;
}

function blockNode(lines, depth) {
  const first = lines[0];
  const fence = FENCE.exec(first);
  if (fence) return codeNode(lines, fence);
  if (MATH_OPEN.test(first)) return displayMath(lines);
  const heading = HEADING.exec(first);
  if (heading) return make(`h${Math.min(6, heading[1].length + 1)}`, {}, ...inline(heading[2] ?? ""));
  if (RULE.test(first)) return make("hr");
  if (QUOTE.test(first)) return make("blockquote", {}, ...blockNodes(lines.map((l) => l.replace(QUOTE, "")).join("\n"), depth + 1));
  if (isTableAt(lines, 0)) return tableNode(lines);
  if (ITEM.test(first)) return listNode(lines, depth);
  return make("p", {}, ...inline(lines.map((l) => l.trimStart()).join("\n")));
}

function blockNodes(text, depth) {
  if (depth > MAX_DEPTH) return [text];
  return splitBlocks(text).map((lines) => blockNode(lines, depth));
}

function codeNode(lines, fence) {
  const indent = fence[1].length;
  const last = lines.length > 1 && lines.at(-1).trim().startsWith(fence[2]) ? lines.length - 1 : lines.length;
  const code = lines.slice(1, last).map((l) => (l.slice(0, indent).trim() === "" ? l.slice(indent) : l)).join("\n");
  const language = fence[3].trim().split(/\s+/)[0].slice(0, 30);
  const copy = iconButton("copy", "Copy the code", () => copyFrom(copy, code));
  const title = make("figcaption", {}, make("span", {}, language || "text"), copy);
  return make("figure", { class: "code" }, title,
    make("pre", { tabindex: "0", "aria-label": `Code, ${language || "text"}` }, make("code", {}, ...highlight(code, language))));
}

function displayMath(lines) {
  const open = MATH_OPEN.exec(lines[0])[1];
  const close = open === "$$" ? "$$" : "\\]";
  const body = lines.join("\n").replace(MATH_OPEN, "");
  const at = body.lastIndexOf(close);
  const node = make("div", { class: "math" }, mathNode((at < 0 ? body : body.slice(0, at)).trim(), true));
  const rest = at < 0 ? "" : body.slice(at + close.length).trim();
  return rest && !/^[.,;]$/.test(rest) ? make("div", {}, node, make("p", {}, ...inline(rest))) : node;
}

// ---- lists ----

function listNode(lines, depth) {
  const ordered = /\d/.test(ITEM.exec(lines[0])[2]);
  const start = ordered ? parseInt(ITEM.exec(lines[0])[2], 10) : 1;
  const list = make(ordered ? "ol" : "ul", ordered && start !== 1 ? { start } : {});
  for (const item of splitItems(lines)) list.append(itemNode(item, depth));
  return list;
}

// Each item's lines without the marker's indent.
function splitItems(lines) {
  const base = ITEM.exec(lines[0])[1].length;
  const items = [];
  let width = 0;
  for (const line of lines) {
    const match = ITEM.exec(line);
    if (match && match[1].length < base + 2 && (items.length === 0 || match[1].length < width)) {
      width = match[1].length + match[2].length + Math.min(match[3].length || 1, 4);
      items.push([match[4]]);
    } else {
      const indent = /^\s*/.exec(line)[0].length;
      items.at(-1).push(line.slice(Math.min(indent, width)));
    }
  }
  return items;
}

function itemNode(lines, depth) {
  const task = /^\[([ xX])\]\s+/.exec(lines[0]);
  const text = [task ? lines[0].slice(task[0].length) : lines[0], ...lines.slice(1)].join("\n");
  const loose = /\n\s*\n/.test(text.trim());
  const nodes = blockNodes(text, depth + 1);
  const unwrapped = loose ? nodes : nodes.flatMap((n) => (n.tagName === "P" ? [...n.childNodes] : [n]));
  if (!task) return make("li", {}, ...unwrapped);
  const box = make("input", { type: "checkbox", disabled: true, checked: task[1] !== " ", "aria-label": "task" });
  return make("li", { class: "task" }, box, ...unwrapped);
}

// ---- tables ----

function cells(line) {
  const text = line.trim().replace(/^\|/, "").replace(/([^\\]|^)\|$/, "$1");
  return text.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function tableNode(lines) {
  const sides = cells(lines[1]).map((c) => (/^:-+:$/.test(c) ? "center" : c.endsWith(":") ? "right" : null));
  const row = (line, tag) => make("tr", {}, ...sides.map((side, k) =>
    make(tag, { class: side, scope: tag === "th" ? "col" : null }, ...inline(cells(line)[k] ?? ""))));
  return make("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, make("table", {},
    make("thead", {}, row(lines[0], "th")), make("tbody", {}, ...lines.slice(2).map((line) => row(line, "td")))));
}

// ---- inside a paragraph ----

const SAFE_LINK = /^(https?:\/\/|mailto:)[^\s]+$/i;
const ESCAPABLE = "\\`*_{}[]()#+-.!|~<>$\"'&";

function linkNode(children, target) {
  if (!SAFE_LINK.test(target)) return null;
  return make("a", { href: target, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children);
}

// What begins at text[i], as {node, end}; null when it is plain text. `missing` holds the marks that are known not to close in
// this text any more, so that a line of open ones is not searched again and again.
function special(text, i, depth, missing) {
  switch (text[i]) {
    case "\\": return escapeAt(text, i, missing);
    case "`": return codeAt(text, i, missing);
    case "$": return dollarAt(text, i, missing);
    case "!": return text[i + 1] === "[" ? linkAt(text, i + 1, depth) : null;
    case "[": return linkAt(text, i, depth);
    case "<": return angleAt(text, i);
    case "*": case "_": case "~": return emphasisAt(text, i, depth, missing);
    case "h": return addressAt(text, i);
    case "\n": return { node: make("br"), end: i + 1 };
    default: return null;
  }
}

// From `from` on; -1, and then known for the rest of the text, when it is nowhere.
function find(text, mark, from, missing) {
  const at = missing.has(mark) ? -1 : text.indexOf(mark, from);
  if (at < 0) missing.add(mark);
  return at;
}

function escapeAt(text, i, missing) {
  const next = text[i + 1];
  const close = { "(": "\\)", "[": "\\]" }[next];
  const at = close ? find(text, close, i + 2, missing) : -1;
  if (at > 0) return { node: mathNode(text.slice(i + 2, at), next === "["), end: at + 2 };
  if (next === "\n") return { node: make("br"), end: i + 2 };
  return next && ESCAPABLE.includes(next) ? { node: next, end: i + 2 } : null;
}

function codeAt(text, i, missing) {
  const mark = /^`+/.exec(text.slice(i, i + 20))[0];
  let at = find(text, mark, i + mark.length, missing);
  while (at >= 0 && text[at + mark.length] === "`") {
    let end = at;
    while (text[end] === "`") end++;
    at = find(text, mark, end, missing);
  }
  if (at < 0) return { node: mark, end: i + mark.length };
  const code = text.slice(i + mark.length, at).replaceAll("\n", " ");
  return { node: make("code", {}, /^ .*[^ ].* $/.test(code) ? code.slice(1, -1) : code), end: at + mark.length };
}

// "$5 and $6" is money: a formula touches its dollars, and no digit follows it.
function dollarAt(text, i, missing) {
  const mark = text[i + 1] === "$" ? "$$" : "$";
  const at = find(text, mark, i + mark.length, missing);
  const body = at < 0 ? "" : text.slice(i + mark.length, at);
  if (body.trim() === "") return null;
  if (mark === "$" && (/^\s|\s$|\n/.test(body) || /\d/.test(text[at + 1] ?? "") || /\w/.test(text[i - 1] ?? ""))) return null;
  return { node: mathNode(body, mark === "$$"), end: at + mark.length };
}

function closingBracket(text, i) {
  const end = Math.min(text.length, i + 2000);
  for (let depth = 0; i < end; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === "[") depth++;
    else if (text[i] === "]" && --depth === 0) return i;
  }
  return -1;
}

function linkAt(text, i, depth) {
  const close = closingBracket(text, i);
  if (close < 0 || text[close + 1] !== "(") return null;
  const rest = /^\(\s*<?((?:[^\s()<>]|\([^\s()]*\))*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(text.slice(close + 1, close + 2100));
  const node = rest && linkNode(inline(text.slice(i + 1, close) || rest[1], depth + 1), rest[1]);
  return node ? { node, end: close + 1 + rest[0].length } : null;
}

function angleAt(text, i) {
  const match = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(text.slice(i, i + 2100));
  if (match) return { node: linkNode([match[1]], match[1]), end: i + match[0].length };
  const line = /^<br\s*\/?>/i.exec(text.slice(i, i + 8));
  return line ? { node: make("br"), end: i + line[0].length } : null;
}

function addressAt(text, i) {
  if (/[\w/]/.test(text[i - 1] ?? "")) return null;
  const match = /^https?:\/\/[^\s<>"'`|]+/i.exec(text.slice(i, i + 2100));
  if (!match) return null;
  let address = match[0].replace(/[.,;:!?*_]+$/, "");
  if (address.endsWith(")") && !address.includes("(")) address = address.replace(/\)+$/, "");
  return { node: linkNode([address], address), end: i + address.length };
}

function emphasisAt(text, i, depth, missing) {
  const run = /^(\*{1,3}|_{1,3}|~~)/.exec(text.slice(i, i + 3))?.[0];
  if (!run) return null;
  const after = text[i + run.length];
  const inWord = run[0] === "_" && /\w/.test(text[i - 1] ?? "");
  if (!after || /\s/.test(after) || inWord) return { node: run, end: i + run.length };
  const at = missing.has(run) ? -1 : closingRun(text, i + run.length, run);
  if (at < 0) {
    missing.add(run);
    return { node: run, end: i + run.length };
  }
  const inner = inline(text.slice(i + run.length, at), depth + 1);
  const node = run === "~~" ? make("del", {}, ...inner) : run.length === 1 ? make("em", {}, ...inner)
    : run.length === 2 ? make("strong", {}, ...inner) : make("strong", {}, make("em", {}, ...inner));
  return { node, end: at + run.length };
}

// Where the run closes, at a run of its own length or of all three marks; -1: nowhere.
function closingRun(text, from, run) {
  const mark = run[0];
  for (let at = text.indexOf(mark, from), end = at; at >= 0; at = text.indexOf(mark, end)) {
    for (end = at; text[end] === mark;) end++;
    const length = end - at;
    const fits = length === run.length || (length === 3 && mark !== "~");
    if (!fits || at === from || /\s/.test(text[at - 1]) || text[at - 1] === "\\") continue;
    if (mark === "_" && /\w/.test(text[end] ?? "")) continue;
    return end - run.length;
  }
  return -1;
}

// The nodes and texts of a paragraph.
export function inline(text, depth = 0) {
  const nodes = [];
  const missing = new Set();
  let plain = "";
  for (let i = 0; i < text.length;) {
    const found = depth < MAX_DEPTH ? special(text, i, depth, missing) : null;
    if (!found) {
      plain += text[i++];
      continue;
    }
    if (typeof found.node === "string") plain += found.node;
    else {
      if (plain) nodes.push(found.node.tagName === "BR" ? plain.trimEnd() : plain);
      plain = "";
      nodes.push(found.node);
    }
    i = found.end;
  }
  if (plain) nodes.push(plain);
  return nodes;
}

// ---- into the page ----

// Shows the text in the element; called again with a longer text it keeps the blocks that are the same.
export function renderMarkdown(element, text) {
  const blocks = splitBlocks(text);
  const known = element.markdownBlocks ?? [];
  let same = 0;
  while (same < known.length && same < blocks.length && known[same] === blocks[same].join("\n")) same++;
  while (element.childNodes.length > same) element.lastChild.remove();
  for (const lines of blocks.slice(same)) element.append(blockNode(lines, 0));
  element.markdownBlocks = blocks.map((lines) => lines.join("\n"));
}
