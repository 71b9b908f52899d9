// Colours for code: comments, texts, numbers and the words of common languages. What is not recognised is plain.
import { h } from "./dom.js";
import { visible } from "./text.js";

const LONGEST = 30_000; // characters that are coloured
const HASH = new Set(["python", "py", "bash", "sh", "shell", "yaml", "yml", "toml", "ruby", "rb", "r", "perl", "makefile", "dockerfile"]);
const NO_COLOURS = new Set(["text", "txt", "plain", "output", "console", "markdown", "md", "diff", "csv", "tex", "latex"]);
const WORDS = new Set(
  ("and as assert async await break case catch class const continue def default del do elif else enum except export extends false False final finally fn for from func " +
    "function global if impl import in instanceof interface is lambda let match mut namespace new nil None nonlocal not null or package pass pub public private protected " +
    "raise return self static struct super switch then this throw true True try type typeof undefined use using var void while with yield fi done echo " +
    "SELECT FROM WHERE JOIN LEFT INNER ON GROUP BY ORDER HAVING LIMIT INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE AND OR NOT NULL AS DISTINCT COUNT UNION WITH")
    .split(" "),
);
const TEXT = `"""[^]*?"""|'''[^]*?'''|"(?:[^"\\\\\\n]|\\\\.)*"|'(?:[^'\\\\\\n]|\\\\.)*'|\`(?:[^\`\\\\]|\\\\.)*\``;
const REST = "\\b\\d[\\w.]*|[A-Za-z_][\\w]*";

function pattern(language) {
  const comment = HASH.has(language) ? "#[^\\n]*" : language === "sql" || language === "lua" || language === "haskell" ? "--[^\\n]*" : "//[^\\n]*|/\\*[^]*?\\*/";
  return new RegExp(`(${comment})|(${TEXT})|(${REST})`, "g");
}

/** The nodes that show code. */
export function coloured(text, language = "") {
  const name = language.toLowerCase();
  if (!name || text.length > LONGEST || NO_COLOURS.has(name)) return visible(text);
  const nodes = [];
  let end = 0;
  const plainUntil = (place) => place > end && nodes.push(...visible(text.slice(end, place)));
  for (const match of text.matchAll(pattern(name))) {
    const [whole, comment, quoted, word] = match;
    const kind = comment ? "comment" : quoted ? "text" : /^\d/.test(word) ? "number" : WORDS.has(word) ? "word" : null;
    if (!kind) continue;
    plainUntil(match.index);
    nodes.push(h("span", { class: `c-${kind}` }, visible(whole)));
    end = match.index + whole.length;
  }
  plainUntil(text.length);
  return nodes;
}
