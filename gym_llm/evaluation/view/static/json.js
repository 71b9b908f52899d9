// Values of any shape: an object folds, a long list comes in parts, a text is shown as it is.
import { button, h } from "./dom.js";
import { counted, number } from "./format.js";
import { block, inline, named } from "./text.js";

const LISTED = 100;

function simple(value) {
  if (value === null) return h("span", { class: "json-null" }, "null");
  if (typeof value === "number") return h("span", { class: "json-number" }, Number.isInteger(value) ? String(value) : number(value));
  if (typeof value === "boolean") return h("span", { class: "json-number" }, String(value));
  return value.length > 120 || value.includes("\n") ? block(value, { class: "json-text" }) : inline(value, { class: "json-text" });
}

/** A value as a tree of folded parts; what is folded is drawn when it is opened. */
export function tree(value, { open = false } = {}) {
  if (typeof value !== "object" || value === null) return simple(value);
  const isList = Array.isArray(value);
  const size = isList ? value.length : Object.keys(value).length;
  if (!size) return h("span", { class: "json-null" }, isList ? "[ ]" : "{ }");
  if (isList && size <= 4 && value.every((each) => typeof each === "number")) return h("span", { class: "json-number" }, value.join(", "));
  const folded = h("details", { class: "json" }, h("summary", {}, isList ? counted(size, "element") : counted(size, "field")));
  let filled = false;
  const fill = () => {
    if (filled || !folded.open) return;
    filled = true;
    folded.append(fields(Object.entries(value), { open: false }));
  };
  folded.addEventListener("toggle", fill);
  folded.open = open;
  fill();
  return folded;
}

/** Names and values, one a line. */
export function fields(entries, { open = false } = {}) {
  const list = h("dl", { class: "fields" });
  let drawn = 0;
  const more = () => {
    for (const [name, value] of entries.slice(drawn, drawn + LISTED)) {
      const long = typeof value === "object" && value !== null;
      list.append(h("div", { class: long ? "field long" : "field" }, h("dt", {}, named(name)), h("dd", {}, tree(value, { open }))));
    }
    drawn = Math.min(entries.length, drawn + LISTED);
    if (drawn < entries.length) {
      const next = button(`${number(entries.length - drawn)} more`, () => {
        next.remove();
        more();
      }, { class: "quiet more" });
      list.append(next);
    }
  };
  more();
  return list;
}
