// Formulas: where they are in a text, and KaTeX's elements for them. A formula that KaTeX cannot read, or that is too
// long, is shown as it is written.
import { h } from "./dom.js";
import { plain, visible } from "./text.js";

const LONGEST = 2_000; // characters of a formula
const DEEPEST = 40; // braces in braces
const MOST_LINES = 120;
const PAIRS = { "\\(": "\\)", "\\[": "\\]", $$: "$$" };
const ENVIRONMENTS = /^\\begin\{((?:align|alignat|equation|gather|cases|matrix|[pbBvV]matrix|array|aligned|gathered|split|smallmatrix)\*?)\}/;
const ALONE = /^\\(?:boxed|fbox)\s*\{/; // written outside of a formula, as answers are
const OPTIONS = { output: "html", throwOnError: true, trust: false, strict: "ignore", maxExpand: 300, maxSize: 12 };
const CLEAN = {
  IN_PLACE: true, ALLOWED_TAGS: ["span", "svg", "path", "line", "#text"],
  ALLOWED_ATTR: ["class", "style", "d", "viewBox", "preserveAspectRatio", "width", "height", "xmlns", "x1", "x2", "y1", "y2", "stroke-width", "aria-hidden"],
};

/** Where the brace that a text has at a place is closed, or -1. */
function closing(text, at) {
  let depth = 0;
  for (let place = at; place < text.length && place < at + LONGEST; place += 1) {
    if (text[place] === "\\") place += 1;
    else if (text[place] === "{") depth += 1;
    else if (text[place] === "}" && (depth -= 1) === 0) return place;
  }
  return -1;
}

function deepest(text) {
  let [depth, most] = [0, 0];
  for (const character of text) {
    if (character === "{") most = Math.max(most, (depth += 1));
    else if (character === "}") depth -= 1;
  }
  return most;
}

// What a model means by a formula: a percent sign is one and no comment, and words in a box are words.
function meant(tex) {
  const box = /^\\(?:boxed|fbox)\s*\{([^{}\\$]*)\}$/.exec(tex)?.[1];
  if (box !== undefined && /\p{L}{2,}/u.test(box)) return `\\boxed{\\text{${box.replace(/([%#&_])/g, "\\$1")}}}`;
  return tex.replace(/^\\(?:boxed|fbox)(\s*)\{\s*\$(.*)\$\s*\}$/s, "\\boxed$1{$2}").replace(/(?<!\\)%/g, "\\%");
}

function draw(element, tex, display, written) {
  const asWritten = (why) => element.replaceChildren(h("code", { class: "tex", title: why ? plain(why).slice(0, 200) : null }, visible(written)));
  const empty = !tex.trim() || /^\\(?:boxed|fbox)\s*\{\s*(?:\\?ldots|\.{2,3})?\s*\}$/.test(tex.trim());
  if (empty || tex.length > LONGEST || deepest(tex) > DEEPEST || plain(tex) !== tex) return asWritten();
  try {
    globalThis.katex.render(meant(tex.trim()), element, { ...OPTIONS, displayMode: display });
    globalThis.DOMPurify.sanitize(element, CLEAN);
  } catch (error) {
    return asWritten(error.message);
  }
  if (globalThis.DOMPurify.removed.length || !element.firstChild) return asWritten();
  element.className = display ? "math display" : "math";
  element.setAttribute("role", "math");
  element.setAttribute("aria-label", tex);
  return element;
}

// Formulas are drawn at once until a moment is spent; the others follow in turns, so that the page never hangs.
const MOMENT = 50; // milliseconds
const waiting = [];
let spent = 0;

function inTurn() {
  spent = 0;
  while (waiting.length && spent < MOMENT) timed(waiting.shift());
  if (waiting.length) setTimeout(inTurn);
}

function timed(task) {
  if (!spent) setTimeout(() => (spent = 0));
  const start = performance.now();
  task();
  spent += performance.now() - start + 0.01;
}

/** A formula as an element; `written` is how the text has it. */
export function formula(tex, { display = false, written = tex } = {}) {
  const element = h("span");
  const task = () => draw(element, tex, display, written);
  if (spent < MOMENT) timed(task);
  else {
    element.append(h("code", { class: "tex" }, visible(written)));
    if (waiting.push(task) === 1) setTimeout(inTurn);
  }
  return element;
}

// -- where they are: a plugin of the parser ---------------------------------------------------------------------------

function push(state, { tex, written, markup, block = false }) {
  const token = state.push("formula", "", 0);
  Object.assign(token, { content: tex, markup, meta: written, block });
}

// The end of an inline formula, and its beginning: `{tex, markup, end}`, or null.
function inlineAt(src, pos, missing) {
  if (src[pos] === "\\") {
    const rest = src.slice(pos, pos + 24);
    const alone = ALONE.exec(rest);
    if (alone) {
      const end = closing(src, pos + alone[0].length - 1);
      return end < 0 ? null : { tex: src.slice(pos, end + 1), markup: "", end: end + 1 };
    }
    const name = ENVIRONMENTS.exec(rest)?.[1];
    if (name) {
      const close = `\\end{${name}}`;
      const end = missing[close] ? -1 : src.indexOf(close, pos);
      if (end < 0) missing[close] = true;
      return end < 0 ? null : { tex: src.slice(pos, end + close.length), markup: "\\[", end: end + close.length };
    }
  }
  const open = src.slice(pos, pos + 2);
  const close = Object.hasOwn(PAIRS, open) ? PAIRS[open] : null;
  if (close) {
    const end = missing[close] ? -1 : src.indexOf(close, pos + 2);
    if (end < 0) missing[close] = true;
    else if (end > pos + 2) return { tex: src.slice(pos + 2, end), markup: open, end: end + 2 };
    return null;
  }
  if (src[pos] !== "$" || /\s/.test(src[pos + 1] ?? " ")) return null;
  // As Pandoc has it: "$5 and $6" are prices.
  let end = pos + 1;
  while (end < src.length && end < pos + LONGEST && src[end] !== "$") end += src[end] === "\\" ? 2 : 1;
  if (src[end] !== "$" || /\s/.test(src[end - 1]) || /\d/.test(src[end + 1] ?? "")) return null;
  return { tex: src.slice(pos + 1, end), markup: "$", end: end + 1 };
}

function inlineRule(state, silent) {
  const first = state.src[state.pos];
  if (first !== "\\" && first !== "$") return false;
  state.formulasMissing ??= {};
  const found = inlineAt(state.src, state.pos, state.formulasMissing);
  if (!found || found.end > state.posMax) return false;
  if (!silent) push(state, { ...found, written: state.src.slice(state.pos, found.end) });
  state.pos = found.end;
  return true;
}

// A formula that has its lines to itself: what looks like a list or a heading in it is none.
function blockRule(state, first, last, silent) {
  const lineAt = (line) => state.src.slice(state.bMarks[line] + state.tShift[line], state.eMarks[line]);
  const start = lineAt(first);
  const environment = ENVIRONMENTS.exec(start)?.[1];
  const open = environment ? "" : start.slice(0, 2);
  const close = environment ? `\\end{${environment}}` : open === "\\[" ? "\\]" : open === "$$" ? "$$" : null;
  if (!close) return false;
  for (let line = first; line < last && line < first + MOST_LINES; line += 1) {
    if (line > first && state.sCount[line] < state.blkIndent) return false;
    const text = lineAt(line);
    const end = text.indexOf(close, line === first ? Math.max(2, open.length) : 0);
    if (end < 0) continue;
    if (text.slice(end + close.length).replace(/[\s.,;]/g, "")) return false; // more follows: it is in a sentence
    if (silent) return true;
    const written = state.getLines(first, line + 1, state.blkIndent, false).trim();
    const inside = environment ? written : written.slice(2, written.lastIndexOf(close));
    state.line = line + 1;
    push(state, { tex: inside, written, markup: "\\[", block: true });
    return true;
  }
  return false;
}

/** The plugin. */
export function FORMULAS(parser) {
  parser.inline.ruler.before("escape", "formula", inlineRule);
  parser.block.ruler.before("fence", "formula", blockRule, { alt: ["paragraph", "blockquote", "list"] });
}
