// Colours for code: comments, strings, numbers, keywords and names that are called. One scanner for all languages, told by a
// few facts about each; a language it does not know gets strings and numbers only.

import { make } from "./dom.js";

const words = (text) => new Set(text.split(" "));
const C_LIKE = "auto break case catch class const continue default delete do else enum export extends final finally for " +
  "function goto if implements import inline interface let namespace new operator package private protected public return " +
  "sizeof static struct super switch template this throw try typedef typeof union using var virtual void volatile while " +
  "async await yield of in instanceof true false null undefined nullptr int long short char float double bool boolean byte " +
  "unsigned signed string size_t uint8_t int32_t uint32_t int64_t uint64_t extern restrict record sealed override abstract";
const LANGUAGES = {
  c: { line: "//", block: ["/*", "*/"], words: words(C_LIKE), prefix: "#" },
  python: {
    line: "#", triple: true, words: words("and as assert async await break class continue def del elif else except False " +
      "finally for from global if import in is lambda match case None nonlocal not or pass raise return self True try while with yield"),
  },
  rust: {
    line: "//", block: ["/*", "*/"], words: words("as async await break const continue crate dyn else enum extern false fn for " +
      "if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where " +
      "while bool char f32 f64 i8 i16 i32 i64 isize str u8 u16 u32 u64 usize String Vec Option Result Some None Ok Err"),
  },
  go: {
    line: "//", block: ["/*", "*/"], words: words("break case chan const continue default defer else fallthrough for func go " +
      "goto if import interface map package range return select struct switch type var nil true false string int int64 " +
      "float64 bool byte error rune any"),
  },
  shell: {
    line: "#", words: words("if then else elif fi for in do done while until case esac function return exit export local " +
      "echo cd set source sudo read shift trap"),
  },
  sql: {
    line: "--", block: ["/*", "*/"], anyCase: true, words: words("select from where and or not in is null insert into values " +
      "update set delete create table index view drop alter add primary key foreign references join left right inner outer " +
      "full on as group by order having limit offset union all distinct case when then else end like between exists asc desc " +
      "with count sum avg min max int integer text varchar boolean default"),
  },
  ruby: {
    line: "#", words: words("begin break case class def do else elsif end ensure false for if in module next nil not or " +
      "puts raise require rescue return self super then true unless until when while yield"),
  },
  lua: { line: "--", words: words("and break do else elseif end false for function if in local nil not or repeat return then true until while") },
  haskell: { line: "--", words: words("case class data deriving do else if import in infix instance let module newtype of then type where") },
  json: { words: words("true false null") },
  yaml: { line: "#", words: words("true false null yes no") },
  css: { block: ["/*", "*/"], words: words("important inherit initial none auto") },
  html: { block: ["<!--", "-->"], tags: true, words: new Set() },
  none: { words: new Set() },
};
const NAMES = {
  "c++": "c", cpp: "c", h: "c", hpp: "c", cc: "c", cs: "c", csharp: "c", java: "c", kotlin: "c", swift: "c", js: "c", jsx: "c",
  javascript: "c", ts: "c", tsx: "c", typescript: "c", php: "c", dart: "c", scala: "c", zig: "c", glsl: "c", cuda: "c", objc: "c",
  py: "python", python3: "python", rs: "rust", golang: "go", sh: "shell", bash: "shell", zsh: "shell", console: "shell",
  dockerfile: "shell", makefile: "shell", rb: "ruby", yml: "yaml", toml: "yaml", ini: "yaml", xml: "html", svg: "html", vue: "html",
  jsonc: "json", json5: "json", scss: "css", less: "css", hs: "haskell", r: "python", perl: "ruby", elixir: "ruby", julia: "ruby",
};

function languageOf(name) {
  const key = name.toLowerCase();
  const found = Object.hasOwn(NAMES, key) ? NAMES[key] : key;
  return Object.hasOwn(LANGUAGES, found) ? LANGUAGES[found] : LANGUAGES.none;
}

function scanner(language) {
  const quote = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
  const end = "(?![\\s\\S])"; // of the text: "$" is the end of any line here
  const parts = [];
  if (language.block) parts.push(`(?<block>${quote(language.block[0])}[\\s\\S]*?(?:${quote(language.block[1])}|${end}))`);
  if (language.prefix) parts.push(`(?<prefix>^[ \\t]*${language.prefix}[ \\t]*\\w+)`);
  if (language.line) parts.push(`(?<line>${language.line === "#" ? "(?<![\\w$&{])" : ""}${quote(language.line)}[^\\n]*)`);
  if (language.triple) parts.push(`(?<triple>"""[\\s\\S]*?(?:"""|${end})|'''[\\s\\S]*?(?:'''|${end}))`);
  if (language.tags) parts.push("(?<tag></?[A-Za-z][\\w:-]*|/?>)");
  parts.push("(?<text>\"(?:[^\"\\\\\\n]|\\\\.)*\"?|`(?:[^`\\\\]|\\\\.)*`?|(?<!\\w)'(?:[^'\\\\\\n]|\\\\.)*')");
  parts.push("(?<number>\\b(?:0[xXbBoO][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)[a-zA-Z]{0,3}\\b)");
  parts.push("(?<word>[A-Za-z_$][\\w$]*)");
  return new RegExp(parts.join("|"), "gm");
}

function classOf(match, language, code) {
  const g = match.groups;
  if (g.block || g.line) return "tok-comment";
  if (g.text || g.triple) return "tok-string";
  if (g.number) return "tok-number";
  if (g.tag || g.prefix) return "tok-keyword";
  if (language.words.has(language.anyCase ? g.word.toLowerCase() : g.word)) return "tok-keyword";
  return code[match.index + g.word.length] === "(" ? "tok-call" : null;
}

// The code as texts and coloured spans; past 60,000 characters as it stands.
export function highlight(code, name) {
  if (code.length > 60000) return [code];
  const language = languageOf(name);
  const nodes = [];
  let at = 0;
  for (const match of code.matchAll(scanner(language))) {
    const kind = classOf(match, language, code);
    if (!kind) continue;
    if (match.index > at) nodes.push(code.slice(at, match.index));
    nodes.push(make("span", { class: kind }, match[0]));
    at = match.index + match[0].length;
  }
  if (at < code.length) nodes.push(code.slice(at));
  return nodes;
}
