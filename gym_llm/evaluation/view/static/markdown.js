// Texts of models as Markdown with formulas. The parser only splits a text into tokens; elements are made here, one by
// one, from our own names, so nothing is ever parsed as markup. Nothing vanishes: an image and a link are shown as
// texts with their addresses, which lead nowhere, and a definition of a link stays where it is.
import { coloured } from "./code_colours.js";
import { button, h } from "./dom.js";
import { formula, FORMULAS } from "./math.js";
import { block, plain, visible } from "./text.js";

const PIECE = 8_000; // characters parsed at once: what takes longer than its length allows stays short
const LONGEST_PIECE = 20_000;
const DRAWN = 24_000; // characters drawn at once
const NESTED = 30;
const ELEMENTS = {
  p: "p", ul: "ul", ol: "ol", li: "li", blockquote: "blockquote", table: "table", thead: "thead", tbody: "tbody", tr: "tr",
  th: "th", td: "td", em: "em", strong: "strong", s: "s",
};

let parser = null;

function theParser() {
  parser ??= globalThis.markdownit("default", { html: false, linkify: false, breaks: true, typographer: false, maxNesting: NESTED })
    .disable(["reference"]).use(FORMULAS);
  parser.normalizeLink = parser.normalizeLinkText = (address) => address; // as it is written
  return parser;
}

/** Code as a block, coloured by its language. */
export function code(text, language) {
  const name = plain(language.trim().split(/\s/)[0]).slice(0, 30);
  const whole = text.replace(/\n$/, "");
  return h("div", { class: "code-block" }, name && h("span", { class: "language" }, name), h("pre", {}, h("code", {}, coloured(whole, name))));
}

function opened(token) {
  if (token.tag in ELEMENTS) {
    const start = token.tag === "ol" ? token.attrGet("start") : null;
    const align = /text-align:(left|right|center)/.exec(token.attrGet("style") ?? "")?.[1];
    return h(ELEMENTS[token.tag], { start, class: align ? `to-${align}` : null });
  }
  if (/^h[1-6]$/.test(token.tag)) return h("p", { class: `heading ${token.tag}`, role: "heading", "aria-level": "5" });
  if (token.tag === "a") return h("span", { class: "link" });
  return h("span");
}

function leaf(token) {
  switch (token.type) {
    case "text": return visible(token.content);
    case "softbreak": case "hardbreak": return h("br");
    case "hr": return h("hr");
    case "code_inline": return h("code", {}, visible(token.content));
    case "code_block": return code(token.content, "");
    case "fence": return code(token.content, token.info);
    case "formula": return formula(token.content, { display: token.block || token.markup.startsWith("$$") || token.markup.startsWith("\\["), written: token.meta });
    case "image": return h("span", { class: "link" }, "[image: ", visible(token.content), "] ", h("span", { class: "address" }, visible(token.attrGet("src") ?? "")));
    default: return visible(token.content);
  }
}

function build(tokens, into) {
  const above = [into];
  const links = [];
  for (const token of tokens) {
    const parent = above[above.length - 1];
    if (token.type === "inline") build(token.children, parent);
    else if (token.nesting === 1) {
      const element = token.hidden ? parent : opened(token); // a tight list's paragraphs are hidden
      if (element !== parent) parent.append(element);
      above.push(element);
      if (token.tag === "a") links.push([token.attrGet("href") ?? "", token.attrGet("title") ?? ""]);
    } else if (token.nesting === -1) {
      above.pop();
      if (token.tag === "a") {
        const [address, title] = links.pop();
        if (parent.textContent !== address) parent.append(h("span", { class: "address" }, " (", visible([address, title].filter(Boolean).join(" ")), ")"));
      }
    } else parent.append(...[leaf(token)].flat());
  }
}

/** A text in pieces that can be parsed alone: cut at empty lines outside of code. */
function* pieces(text) {
  let [start, place, fence] = [0, 0, null];
  while (place < text.length) {
    let end = text.indexOf("\n", place);
    end = end < 0 ? text.length : end + 1;
    const line = text.slice(place, Math.min(end, place + 200));
    const mark = /^ {0,3}(```+|~~~+)/.exec(line)?.[1];
    if (mark && (!fence || (mark[0] === fence[0] && mark.length >= fence.length))) fence = fence ? null : mark;
    place = end;
    const size = place - start;
    if (size < PIECE) continue;
    if (size >= LONGEST_PIECE || (!fence && /^\s*$/.test(line))) {
      for (; place - start > LONGEST_PIECE; start += LONGEST_PIECE) yield text.slice(start, start + LONGEST_PIECE);
      yield text.slice(start, place);
      start = place;
    }
  }
  if (start < text.length) yield text.slice(start);
}

function parsed(text) {
  try {
    const holder = h("div", { class: "piece" });
    build(theParser().parse(text, {}), holder);
    return holder;
  } catch {
    return block(text); // nested too deeply
  }
}

/** A text as Markdown, or with `source` as it is written; in parts if it is long. */
export function prose(text, { source = false } = {}) {
  const whole = String(text);
  if (source || whole.includes("\u0000")) return block(whole); // a parser replaces it
  const element = h("div", { class: "said prose", dir: "auto" });
  const left = pieces(whole.replaceAll("\r\n", "\n"));
  let shown = 0;
  const more = (most) => {
    for (let drawn = 0; drawn < most; ) {
      const { value, done } = left.next();
      if (done) return;
      element.append(parsed(value));
      [drawn, shown] = [drawn + value.length, shown + value.length];
    }
    const rest = whole.length - shown;
    if (rest <= 0) return;
    const next = button(`${rest.toLocaleString("en")} more characters`, () => {
      next.remove();
      more(5 * DRAWN);
    }, { class: "quiet more" });
    element.append(next);
  };
  more(DRAWN);
  return element;
}
