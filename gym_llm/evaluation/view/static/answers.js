// The expected answer beside the one that the verifier extracted, with what differs marked.
import { h } from "./dom.js";
import { code as codeBlock } from "./markdown.js";
import { details, taskFields } from "./items.js";
import { commonPairs } from "./lcs.js";
import { formula } from "./math.js";
import { asText, named, visible } from "./text.js";

const LONGEST = 400; // characters that are compared letter by letter; beyond, word by word
const LONGEST_COMPARED = 20_000;
const EXPECTED = ["expected_answer", "expected", "ground_truth", "reference_answer", "reference", "gold", "golds", "target", "answer", "label", "solution"];
const EXTRACTED = ["extracted_answer", "extracted", "extracted_final_answer", "predicted_answer", "prediction", "model_answer", "model_output", "answer"];
const WORDS = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;
const EXTRACTED_CODE = /^(extracted_(model_code|sql|code)|extracted_.*(code|sql))$/;

const simple = (value) => value !== undefined && (typeof value !== "object" || Array.isArray(value) || value === null);

/** Pairs of a record's answers: `{name, expected, extracted}`; either may be undefined. */
export function answerPairs(record) {
  const [task, info] = [taskFields(record), details(record)];
  const pairs = [];
  for (const [name, extracted] of Object.entries(info)) {
    const suffix = /^extracted_(.+)$/.exec(name)?.[1];
    if (!suffix || EXTRACTED_CODE.test(name) || !simple(extracted)) continue;
    const other = [`expected_${suffix}`, `gold_${suffix}`, `reference_${suffix}`, suffix].find((each) => simple(task[each]) || simple(info[each]));
    if (other) pairs.push({ expectedName: other, extractedName: name, expected: task[other] ?? info[other], extracted });
  }
  if (pairs.length) return pairs.slice(0, 6);
  const place = (names, fields) => names.find((name) => Object.hasOwn(fields, name) && simple(fields[name]));
  const expectedName = place(EXPECTED, task) ?? Object.keys(task).find((name) => /^expected_/.test(name) && simple(task[name])) ?? place(EXPECTED.slice(0, 8), info);
  const extractedName = place(EXTRACTED, info) ?? Object.keys(info).find((name) => /^extracted_/.test(name) && simple(info[name]) && !EXTRACTED_CODE.test(name));
  if (!expectedName && !extractedName) return [];
  return [{ expectedName, extractedName, expected: task[expectedName] ?? info[expectedName], extracted: extractedName ? info[extractedName] : undefined }];
}

// The name and the text of the code that the verifier extracted.
function extractedCode(record) {
  return Object.entries(details(record)).find(([name, value]) => EXTRACTED_CODE.test(name) && typeof value === "string" && value);
}

/** The names of fields that `answersView` shows, so that they are not shown twice. */
export function answerNames(record) {
  return new Set([...answerPairs(record).flatMap((pair) => [pair.expectedName, pair.extractedName]), extractedCode(record)?.[0]]);
}

// The nodes of a text in which what the other has not is marked.
function marked(parts, common) {
  const nodes = [];
  parts.forEach((part, index) => {
    if (common.has(index)) return nodes.push(...visible(part));
    const last = nodes[nodes.length - 1];
    if (last?.nodeName === "MARK") return last.append(...visible(part));
    return nodes.push(h("mark", {}, visible(part)));
  });
  return nodes;
}

/** Two texts with what differs marked: `[nodes, nodes]`; letter by letter if they are short. */
export function differences(one, other) {
  if (one === other || one.length + other.length > LONGEST_COMPARED) return [visible(one), visible(other)];
  const split = (text) => (one.length + other.length <= LONGEST ? [...text] : text.match(WORDS) ?? []);
  const [first, second] = [split(one), split(other)];
  const found = first.length * second.length <= 1_000_000 ? commonPairs(first, second) : [];
  const pairs = found.length * 2 > Math.max(first.length, second.length) ? found : []; // else the letters that are alike mean nothing
  return [marked(first, new Set(pairs.map(([index]) => index))), marked(second, new Set(pairs.map(([, index]) => index)))];
}

const isMath = (text) => text.length < 400 && /\\[a-zA-Z]+|\^|_\{/.test(text) && !text.includes("\n");

function side(title, name, text, nodes, kind) {
  const shown = text === null ? h("p", { class: "none" }, kind === "extracted" ? "no answer was found" : "none is recorded") : h("div", { class: "said answer-text", dir: "auto" }, nodes);
  return h("div", { class: `answer ${kind}` }, h("h4", { class: "who" }, title, name && h("small", {}, " ", named(name))), shown,
    text !== null && isMath(text) && h("div", { class: "answer-math" }, formula(text.replace(/^\$+|\$+$/g, ""), { written: "" })));
}

const textOf = (value) => (value === undefined || value === null || value === "" ? null : asText(value));

/** The panel of answers, or null if a record has none. */
export function answersView(record) {
  const pairs = answerPairs(record);
  const code = extractedCode(record);
  if (!pairs.length && !code) return null;
  const rows = pairs.map(({ expectedName, extractedName, expected, extracted }) => {
    const [one, other] = [textOf(expected), textOf(extracted)];
    const [first, second] = one !== null && other !== null ? differences(one, other) : [one !== null && visible(one), other !== null && visible(other)];
    const same = one !== null && one === other;
    const sign = one === null || other === null ? "" : same ? "=" : "\u2260";
    if (!extractedName) return side("Expected", expectedName, one, first, "expected");
    return h("div", { class: `answers ${same ? "same" : "different"}` }, side("Expected", expectedName, one, first, "expected"),
      h("span", { class: "sign", title: sign && (same ? "the same, to the letter" : "not the same to the letter; the verifier may have taken them for equal"), "aria-label": same ? "equal" : "different" }, sign),
      side("Extracted", extractedName, other, second, "extracted"));
  });
  return h("section", { class: "panel answers-panel", "aria-label": "Answers" }, rows,
    code && h("div", { class: "answer" }, h("h4", { class: "who" }, "Extracted ", h("small", {}, named(code[0]))), codeBlock(code[1], /sql/.test(code[0]) ? "sql" : "python")));
}
