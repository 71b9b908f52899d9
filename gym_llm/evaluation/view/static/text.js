// Texts of others: every character that is invisible, or turns the text around, is shown as a symbol of its own.
import { button, h } from "./dom.js";

// C0 and C1 but tab and line feed, soft hyphen, direction marks and overrides, zero-width characters, line separators,
// tags, lone surrogates. A joiner within an emoji stays what it is.
const UNSEEN =
  /(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\uFE0F](?=\u200D\p{Extended_Pictographic}))([\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u061C\u115F\u1160\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\u3164\uFEFF\uFFA0\uFFF9-\uFFFB\u{E0000}-\u{E007F}\uD800-\uDFFF])\1*/gu;
const NAMES = {
  0x1b: "escape", 0xad: "soft hyphen", 0x200b: "zero-width space", 0x200c: "zero-width non-joiner", 0x200d: "zero-width joiner",
  0x200e: "left-to-right mark", 0x200f: "right-to-left mark", 0x202a: "left-to-right embedding", 0x202b: "right-to-left embedding",
  0x202c: "end of direction", 0x202d: "left-to-right override", 0x202e: "right-to-left override", 0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate", 0x2068: "first strong isolate", 0x2069: "end of isolate", 0xfeff: "byte order mark",
};
const PART = 20_000; // characters drawn at once

function symbol(run, character) {
  const code = character.codePointAt(0);
  const hex = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  const shown = code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : hex;
  const times = run.length / character.length;
  const title = `${hex}${NAMES[code] ? ` ${NAMES[code]}` : ""}${times > 1 ? `, ${times} times` : ""}`;
  return h("span", { class: "unseen", title }, times > 1 ? `${shown}\u00d7${times}` : shown);
}

/** The nodes that show a text. */
export function visible(text) {
  const whole = String(text).replaceAll("\r\n", "\n");
  const nodes = [];
  let end = 0;
  for (const match of whole.matchAll(UNSEEN)) {
    if (match.index > end) nodes.push(whole.slice(end, match.index));
    nodes.push(symbol(match[0], match[1]));
    end = match.index + match[0].length;
  }
  if (end < whole.length) nodes.push(whole.slice(end));
  return nodes;
}

/** A short text in a line: isolated, so that its direction is nobody else's. */
export function inline(text, attributes) {
  return h("bdi", attributes, visible(text));
}

/** A name in parts that may stand in several lines. */
export function named(name) {
  return h("bdi", {}, name.slice(0, 300).split(/(?<=[_./])/).flatMap((part) => [...visible(part), h("wbr")]));
}

/** A text without what cannot be seen, for the places that hold no elements: a title, a label, an option. */
export function plain(text) {
  return String(text).replace(UNSEEN, "\ufffd");
}

/** A text as a block, in parts if it is long. */
export function block(text, attributes) {
  const whole = String(text);
  const element = h("div", { dir: "auto", ...attributes, class: `said ${attributes?.class ?? ""}` });
  let drawn = 0;
  const more = () => {
    let end = Math.min(whole.length, drawn + PART * (drawn ? 5 : 1));
    if (/[\uD800-\uDBFF]/.test(whole[end - 1] ?? "") && end < whole.length) end += 1; // both halves of a character
    element.append(...visible(whole.slice(drawn, end)));
    drawn = end;
    const left = whole.length - drawn;
    if (left) {
      const next = button(`${left.toLocaleString("en")} more characters`, () => {
        next.remove();
        more();
      }, { class: "quiet more" });
      element.append(next);
    }
  };
  more();
  return element;
}

/** What a value is called where only a text fits. */
export function asText(value) {
  if (typeof value === "string") return value;
  if (value === undefined) return "";
  try {
    return JSON.stringify(value, null, 2);
  } catch {
    return "(nested too deeply to be written)";
  }
}
