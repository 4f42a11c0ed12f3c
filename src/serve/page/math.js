// LaTeX as chat models write it, to MathML, which every browser draws by itself. A reader of tokens and a descent over them;
// what it does not know is shown as it was written, so a formula is never worse than its source.

import { SYMBOLS, FUNCTIONS, LARGE, ACCENTS, ALPHABETS, STRETCHY } from "./symbols.js";

const MATHML = "http://www.w3.org/1998/Math/MathML";
const MAX_DEPTH = 40;

function math(tag, attributes, ...children) {
  const element = document.createElementNS(MATHML, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const row = (nodes) => (nodes.length === 1 ? nodes[0] : math("mrow", null, ...nodes));
const operator = (text, attributes) => math("mo", attributes, text);
const space = (width) => math("mspace", { width });

const TIGHT = { stretchy: "false", lspace: "0", rspace: "0" };

// ---- tokens ----

const TOKEN = /\\([a-zA-Z]+)\*?|\\([\s\S])|%[^\n]*|(\s+)|(\d+(?:[.,]\d+)*)|([\s\S])/gu;

// {kind: "command" | "number" | "char", text, space: white space stands before it}
function tokenize(source) {
  const tokens = [];
  let spaced = false;
  for (const m of source.matchAll(TOKEN)) {
    if (m[3] !== undefined || m[0][0] === "%") {
      spaced = true;
      continue;
    }
    const kind = m[1] !== undefined || m[2] !== undefined ? "command" : m[4] !== undefined ? "number" : "char";
    tokens.push({ kind, text: m[1] ?? m[2] ?? m[4] ?? m[5], space: spaced, start: m.index, end: m.index + m[0].length });
    spaced = false;
  }
  return tokens;
}

// ---- the descent ----

class Reader {
  constructor(source, display) {
    this.source = source;
    this.tokens = tokenize(source);
    this.at = 0;
    this.depth = 0;
    this.display = display;
    this.alphabet = null;
  }

  peek(kind, text) {
    const t = this.tokens[this.at];
    return t && (kind === undefined || t.kind === kind) && (text === undefined || t.text === text) ? t : null;
  }

  take(kind, text) {
    const t = this.peek(kind, text);
    if (t) this.at++;
    return t;
  }

  // Nodes up to a token for which `ends` holds; it is not taken.
  list(ends) {
    if (++this.depth > MAX_DEPTH) throw new Error("too deep");
    const nodes = [];
    while (this.at < this.tokens.length && !ends(this.tokens[this.at])) {
      const node = this.scripted();
      if (node) nodes.push(node);
    }
    this.depth--;
    return nodes;
  }

  group() {
    const nodes = this.list((t) => t.kind === "char" && t.text === "}");
    this.take("char", "}");
    return row(nodes);
  }

  // An argument: a group, or one token.
  argument() {
    if (this.take("char", "{")) return this.group();
    if (this.at >= this.tokens.length) return math("mrow");
    const number = this.peek("number");
    if (number && number.text.length > 1) {
      this.tokens[this.at] = { ...number, text: number.text.slice(1), start: number.start + 1 };
      return math("mn", null, number.text[0]);
    }
    return this.atom() ?? math("mrow");
  }

  // The raw text of a group, for \text and names.
  rawArgument() {
    if (!this.peek("char", "{")) return this.tokens[this.at++]?.text ?? "";
    const from = this.tokens[this.at++].end;
    let to = this.source.length;
    for (let depth = 1; this.at < this.tokens.length; this.at++) {
      const t = this.tokens[this.at];
      if (t.kind === "char" && t.text === "{") depth++;
      if (t.kind === "char" && t.text === "}" && --depth === 0) {
        to = t.start;
        this.at++;
        break;
      }
    }
    return this.source.slice(from, to);
  }

  optional() {
    if (!this.take("char", "[")) return null;
    const nodes = this.list((t) => t.kind === "char" && t.text === "]");
    this.take("char", "]");
    return row(nodes);
  }

  // An atom with what hangs on it: primes, subscript and superscript, in either order.
  scripted() {
    let base = this.peek("char", "^") || this.peek("char", "_") ? math("mrow") : this.atom();
    if (!base) return null;
    let sub = null;
    let sup = null;
    let primes = "";
    let limits = base.dataset?.limits === "always" || (base.dataset?.limits === "display" && this.display);
    for (;;) {
      if (this.take("command", "limits")) limits = true;
      else if (this.take("command", "nolimits")) limits = false;
      else if (this.take("char", "'")) primes += "′";
      else if (!sub && this.take("char", "_")) sub = this.argument();
      else if (!sup && this.take("char", "^")) sup = this.argument();
      else break;
    }
    if (primes) base = math("mrow", null, base, operator(primes, TIGHT)); // the character is raised by itself
    if (!sub && !sup) return base;
    const tag = sub && sup ? (limits ? "munderover" : "msubsup") : sub ? (limits ? "munder" : "msub") : limits ? "mover" : "msup";
    return math(tag, null, base, ...[sub, sup].filter(Boolean));
  }

  atom() {
    const t = this.tokens[this.at++];
    if (t.kind === "number") return math("mn", null, t.text);
    if (t.kind === "char") return this.character(t.text);
    return this.command(t.text);
  }

  character(c) {
    if (c === "{") return this.group();
    if (c === "}") return null;
    if (c === "~") return space("0.33em");
    if (c === "&") return null;
    if (/\p{L}/u.test(c)) return this.letter(c);
    if (c === "|") return operator(c, TIGHT);
    if ("()[]/".includes(c)) return operator(c, { stretchy: "false" });
    return operator({ "-": "−", "*": "∗" }[c] ?? c);
  }

  letter(c) {
    if (this.alphabet === null) return math("mi", null, c);
    return this.alphabet(c);
  }

  command(name) {
    if (Object.hasOwn(SYMBOLS, name)) return symbolNode(SYMBOLS[name]);
    if (Object.hasOwn(LARGE, name)) return largeNode(name);
    if (FUNCTIONS.has(name)) return functionNode(name, this.peek("char", "(") !== null);
    if (Object.hasOwn(ACCENTS, name)) return this.accent(name);
    if (Object.hasOwn(ALPHABETS, name)) return this.inAlphabet(ALPHABETS[name]);
    if (Object.hasOwn(COMMANDS, name)) return COMMANDS[name](this);
    return math("mtext", { class: "unknown" }, `\\${name}`);
  }

  accent(name) {
    const base = this.argument();
    if (name === "overline" || name === "underline") return math("mrow", { class: name }, base);
    const [mark, under, stretches] = ACCENTS[name];
    const over = operator(mark, stretches ? { stretchy: "true" } : { stretchy: "false", class: "mark" });
    const node = math(under ? "munder" : "mover", { [under ? "accentunder" : "accent"]: "true" }, base, over);
    if (name.endsWith("brace")) {
      node.setAttribute(under ? "accentunder" : "accent", "false");
      node.dataset.limits = "always";
    }
    return node;
  }

  inAlphabet(shape) {
    const before = this.alphabet;
    this.alphabet = (c) => alphabetNode(c, shape);
    const node = this.argument();
    this.alphabet = before;
    return node;
  }

  delimiter() {
    const t = this.tokens[this.at++];
    if (!t || t.text === ".") return "";
    if (t.kind === "command") return SYMBOLS[t.text]?.text ?? { "{": "{", "}": "}", "|": "‖" }[t.text] ?? "";
    return { "<": "⟨", ">": "⟩" }[t.text] ?? t.text;
  }

  leftRight() {
    const fence = (text) => operator(text, { stretchy: "true", fence: "true" });
    const nodes = [fence(this.delimiter())];
    do {
      nodes.push(...this.list((t) => t.kind === "command" && (t.text === "right" || t.text === "middle")));
      const middle = this.take("command", "middle");
      if (!middle) break;
      nodes.push(fence(this.delimiter()));
    } while (this.at < this.tokens.length);
    if (this.take("command", "right")) nodes.push(fence(this.delimiter()));
    return math("mrow", null, ...nodes);
  }

  environment() {
    const name = this.rawArgument().replace("*", "");
    if (name === "array") this.columns = this.rawArgument();
    const rows = [[]];
    while (this.at < this.tokens.length && !this.peek("command", "end")) {
      const cell = this.list((t) => (t.kind === "char" && t.text === "&") ||
        (t.kind === "command" && ["\\", "end", "hline", "cr"].includes(t.text)));
      rows.at(-1).push(cell);
      if (this.take("char", "&")) continue;
      if (this.take("command", "\\") || this.take("command", "cr")) {
        this.optional();
        rows.push([]);
      } else if (!this.take("command", "hline")) break;
    }
    if (this.take("command", "end")) this.rawArgument();
    return environmentNode(name, rows.filter((cells) => cells.some((cell) => cell.length > 0)));
  }
}

// ---- nodes ----

const WITH_LIMITS = new Set(["lim", "limsup", "liminf", "max", "min", "sup", "inf", "argmax", "argmin"]);

function symbolNode({ text, kind }) {
  if (kind === "letter") return math("mi", null, text);
  if (kind === "upright") return math("mi", { mathvariant: "normal" }, text);
  if (kind === "space") return space(text);
  return operator(text, kind === "fence" ? { stretchy: "false" } : null);
}

function largeNode(name) {
  const node = operator(LARGE[name], { largeop: "true", movablelimits: "false" });
  if (!name.endsWith("int")) node.dataset.limits = "display";
  return node;
}

// An operator, so that it keeps its distance from what it is applied to; none from a parenthesis.
function functionNode(name, touches) {
  const shown = { limsup: "lim sup", liminf: "lim inf" }[name] ?? name;
  const node = operator(shown, { form: "prefix", lspace: "0.17em", rspace: touches ? "0" : "0.17em" });
  if (WITH_LIMITS.has(name)) node.dataset.limits = "display";
  return node;
}

// The Unicode letter of an alphabet, where there is one.
function alphabetNode(c, shape) {
  if (shape.upright) return math("mi", { mathvariant: "normal" }, c);
  const exception = shape.exceptions?.[c];
  if (exception) return math("mi", { mathvariant: "normal" }, exception);
  const code = c.codePointAt(0);
  const base = code >= 65 && code <= 90 ? shape.upper + code - 65 : code >= 97 && code <= 122 && shape.lower ? shape.lower + code - 97 : 0;
  return math("mi", { mathvariant: "normal" }, base ? String.fromCodePoint(base) : c);
}

function fraction(reader, attributes, style) {
  const inner = () => {
    const before = reader.display;
    reader.display = false;
    const node = reader.argument();
    reader.display = before;
    return node;
  };
  const node = math("mfrac", attributes, inner(), inner());
  return style === undefined ? node : math("mstyle", { displaystyle: style, scriptlevel: "0" }, node);
}

const FENCES = {
  pmatrix: ["(", ")"], bmatrix: ["[", "]"], Bmatrix: ["{", "}"], vmatrix: ["|", "|"], Vmatrix: ["‖", "‖"], cases: ["{", ""],
};

function environmentNode(name, rows) {
  const aligned = /^(align|aligned|split|eqnarray|gather|gathered|equation|alignat|multline)/.test(name);
  const kind = /^(align|aligned|split|eqnarray|alignat)/.test(name) ? "aligned" : name === "cases" ? "cases" : "matrix";
  const table = math("mtable", { class: kind }, ...rows.map((cells) =>
    math("mtr", null, ...cells.map((cell) => math("mtd", null, row(cell))))));
  if (aligned) table.setAttribute("displaystyle", "true");
  if (!Object.hasOwn(FENCES, name)) return table;
  const [left, right] = FENCES[name];
  const fence = (text) => operator(text, { stretchy: "true", fence: "true" });
  return math("mrow", null, fence(left), table, ...(right ? [fence(right)] : []));
}

const stacked = (tag) => (r) => {
  const mark = r.argument();
  return math(tag, null, r.argument(), mark);
};
const text = (r) => math("mtext", null, r.rawArgument().replace(/\\(.)/g, "$1").replace(/^ | $/g, "\u00a0").replaceAll("$", ""));
const upright = (r) => {
  const node = math("mi", { mathvariant: "normal" }, r.rawArgument().replace(/\\[,;! ]/g, " "));
  node.dataset.limits = "display";
  return node;
};
const sized = (r) => operator(r.delimiter(), { minsize: "1.5em", stretchy: "true" });
const nothing = () => null;

const COMMANDS = {
  frac: (r) => fraction(r), dfrac: (r) => fraction(r, null, "true"), tfrac: (r) => fraction(r, null, "false"), cfrac: (r) => fraction(r, null, "true"),
  binom: (r) => math("mrow", null, operator("("), fraction(r, { linethickness: "0" }), operator(")")),
  sqrt: (r) => {
    const degree = r.optional();
    const base = r.argument();
    return degree ? math("mroot", null, base, degree) : math("msqrt", null, base);
  },
  left: (r) => r.leftRight(),
  begin: (r) => r.environment(),
  end: (r) => (r.rawArgument(), null),
  text, textrm: text, textit: text, textbf: text, textsf: text, mbox: text, texttt: text, textnormal: text, operatorname: upright,
  overset: stacked("mover"), stackrel: stacked("mover"), underset: stacked("munder"),
  boxed: (r) => math("mrow", { class: "boxed" }, r.argument()), fbox: (r) => math("mrow", { class: "boxed" }, text(r)),
  xrightarrow: (r) => math("mover", null, operator("→", { stretchy: "true" }), r.argument()),
  xleftarrow: (r) => math("mover", null, operator("←", { stretchy: "true" }), r.argument()),
  phantom: (r) => math("mphantom", null, r.argument()),
  not: (r) => {
    const node = r.atom();
    if (node) node.textContent += "\u0338";
    return node;
  },
  pmod: (r) => math("mrow", null, space("1em"), operator("(", TIGHT), math("mi", { mathvariant: "normal" }, "mod"), space("0.33em"), r.argument(), operator(")", TIGHT)),
  bmod: () => math("mo", { lspace: "0.28em", rspace: "0.28em" }, "mod"),
  tag: (r) => math("mrow", null, space("2em"), math("mtext", null, `(${r.rawArgument()})`)),
  color: (r) => (r.rawArgument(), null), textcolor: (r) => (r.rawArgument(), r.argument()), label: (r) => (r.rawArgument(), null),
  big: sized, Big: sized, bigg: sized, Bigg: sized, bigl: sized, bigr: sized, Bigl: sized, Bigr: sized, biggl: sized, biggr: sized,
  Biggl: sized, Biggr: sized, right: (r) => operator(r.delimiter()), middle: (r) => operator(r.delimiter()),
  displaystyle: nothing, textstyle: nothing, scriptstyle: nothing, nonumber: nothing, notag: nothing, hline: nothing, limits: nothing,
  nolimits: nothing, rm: nothing, bf: nothing, it: nothing, "\\": () => space("1em"),
};
for (const name of Object.keys(STRETCHY)) COMMANDS[name] ??= () => operator(STRETCHY[name], { stretchy: "true" });

// A <math> element for the LaTeX source; its source in a <code> when it can not be read.
export function mathNode(source, display) {
  try {
    const reader = new Reader(source, display);
    const nodes = reader.list(() => false);
    const node = math("math", display ? { display: "block" } : null, math("mrow", null, ...nodes));
    node.setAttribute("aria-label", source);
    return node;
  } catch {
    const code = document.createElement("code");
    code.textContent = source;
    return code;
  }
}
