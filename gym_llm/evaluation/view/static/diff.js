// Two episodes of one task side by side: what both say is pale, what only one says is marked, word by word.
import { button, h } from "./dom.js";
import { counted } from "./format.js";
import { conversation } from "./items.js";
import { aligned, commonPairs } from "./lcs.js";
import { plain, visible } from "./text.js";

const WORDS = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;
const LINES = 3000; // of an episode that are compared
const SHOWN = 400; // rows drawn at once
const AROUND = 3; // equal rows shown around a difference
const WHO = { user: "User", assistant: "Model", system: "System", developer: "Developer", reasoning: "Reasoning", call: "Call", output: "Result", other: "Item" };

function linesOf(record) {
  const { turns } = conversation(record);
  const lines = [];
  turns.forEach((turn, index) => {
    lines.push({ head: `Turn ${index + 1}`, text: "", key: "\u0000turn" });
    for (const entry of turn) {
      const who = WHO[entry.kind] + (entry.name ? ` ${entry.name}` : "");
      entry.text.trim().split("\n").forEach((text, line) => lines.push({ who: line ? "" : who, text, key: `${entry.kind}\u0000${text}`, error: entry.error }));
    }
  });
  return lines.slice(0, LINES);
}

// The words of a line; those that the other line has not are marked.
function words(text, marked) {
  const nodes = [];
  text.forEach((word, index) => {
    if (!marked.has(index)) return nodes.push(...visible(word));
    const last = nodes[nodes.length - 1];
    if (last?.nodeName === "MARK") return last.append(...visible(word));
    return nodes.push(h("mark", {}, visible(word)));
  });
  return nodes;
}

function pairOfLines(one, other) {
  const [first, second] = [one.text.slice(0, 5000).match(WORDS) ?? [], other.text.slice(0, 5000).match(WORDS) ?? []];
  const pairs = first.length * second.length <= 1_000_000 ? commonPairs(first, second) : [];
  const common = pairs.filter(([index]) => first[index].trim()).length;
  const alike = common * 4 >= Math.max(first.length, second.length) / 2; // else every word would be a mark of its own
  if (!alike) return [visible(one.text), visible(other.text)];
  const [mine, theirs] = [new Set(pairs.map(([index]) => index)), new Set(pairs.map(([, index]) => index))];
  const marked = (list, common_) => new Set(list.map((_, index) => index).filter((index) => !common_.has(index)));
  return [words(first, marked(first, mine)), words(second, marked(second, theirs))];
}

function cell(line, content, change) {
  if (!line) return h("div", { class: "line gap" });
  if (line.head) return h("div", { class: "line head" }, line.head);
  return h("div", { class: `line ${change}${line.error ? " error" : ""}` }, h("span", { class: "who" }, line.who && plain(line.who)), h("span", { class: "said", dir: "auto" }, content));
}

/** The differences of two records. */
export function diffView(record, other, names) {
  const [left, right] = [linesOf(record), linesOf(other)];
  const rows = aligned(left.map((line) => line.key), right.map((line) => line.key));
  const table = h("div", { class: "diff-rows" });
  const drawRow = ([i, j, same]) => {
    const [one, two] = [left[i], right[j]];
    if (same) return [cell(one, visible(one.text), "same"), cell(two, visible(two.text), "same")];
    const [first, second] = one && two && !one.head && !two.head ? pairOfLines(one, two) : [one && visible(one.text), two && visible(two.text)];
    return [cell(one, first, "removed"), cell(two, second, "added")];
  };
  const near = rows.map(() => false);
  rows.forEach(([, , same], index) => {
    if (!same) for (let at = Math.max(0, index - AROUND); at <= Math.min(rows.length - 1, index + AROUND); at += 1) near[at] = true;
  });
  const draw = (from, to) => {
    const nodes = [];
    for (let index = from; index < to; ) {
      let end = index;
      while (end < to && !near[end]) end += 1;
      if (end - index > 2 * AROUND) {
        const folded = rows.slice(index, end);
        const show = button(`${counted(folded.length, "equal line")}`, () => show.replaceWith(...folded.flatMap(drawRow)), { class: "quiet equal" });
        nodes.push(show);
        index = end;
      } else {
        nodes.push(...drawRow(rows[index]));
        index += 1;
      }
    }
    return nodes;
  };
  let drawn = 0;
  const more = () => {
    const to = Math.min(rows.length, drawn + SHOWN);
    table.append(...draw(drawn, to));
    drawn = to;
    if (drawn < rows.length) {
      const next = button(`${rows.length - drawn} more lines`, () => {
        next.remove();
        more();
      }, { class: "quiet equal" });
      table.append(next);
    }
  };
  more();
  const differences = rows.filter(([, , same]) => !same).length;
  return h("div", { class: "diff" },
    h("p", { class: "note" }, differences ? `${counted(differences, "line")} differ.` : "Both say the same, to the letter."),
    h("div", { class: "diff-names" }, names.map((name) => h("h3", {}, name))),
    table);
}
