// What the model saw and sampled, token by token: sampled ones are coloured and underlined by how improbable they were.
import { branches, branchMap, stretches } from "./branches.js";
import { button, h, whenNear } from "./dom.js";
import { counted, number } from "./format.js";
import { conversation, fieldsOf, spanOf } from "./items.js";
import { block, inline, plain, visible } from "./text.js";

const PART = 400; // ids drawn at once
const STEPS = [0.9, 0.5, 0.2, 0.05, 0.01]; // probabilities that divide the colours p0 (likely) to p5
const NAMES = ["over 90%", "50\u201390%", "20\u201350%", "5\u201320%", "1\u20135%", "under 1%"];

function step(logProb) {
  const probability = Math.exp(logProb);
  const index = STEPS.findIndex((limit) => probability >= limit);
  return index < 0 ? STEPS.length : index;
}

function chance(logProb) {
  const share = 100 * Math.exp(logProb);
  return share >= 10 ? share.toFixed(0) : share >= 0.01 ? share.toPrecision(2) : share.toExponential(0);
}

function legend() {
  return h("div", { class: "legend", "aria-label": "Colours" },
    NAMES.map((name, index) => h("span", {}, h("i", { class: `token p${index}` }, "\u2007"), name)),
    h("span", {}, h("i", { class: "token prompt" }, "\u2007"), "not sampled (loss mask 0)"));
}

// Texts of sampled ids, if the engine reported them with a message's log probabilities.
function textsOf(turn, count) {
  const listed = turn.flatMap((entry) => (Array.isArray(entry.item?.content) ? entry.item.content : [])).flatMap((part) => (Array.isArray(part?.logprobs) ? part.logprobs : []));
  const texts = listed.map((each) => each?.token);
  return texts.length === count && texts.every((text) => typeof text === "string") ? texts : null;
}

/** The texts of a segment's ids: a character of several ids stands with the last of them, the others are "". */
function decoded(ids, pieces) {
  if (!pieces || !Object.keys(pieces).length) return null;
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return ids.map((id) => {
    const piece = Object.hasOwn(pieces, id) ? pieces[id] : undefined;
    return piece === undefined ? null : decoder.decode(Uint8Array.from(piece, (byte) => byte.charCodeAt(0)), { stream: true });
  });
}

// A line break is seen, and breaks the line.
function shownText(text) {
  if (text === "") return ["\u00b7"]; // a part of the next character
  return text.split(/(\n)/).flatMap((part) => (part === "\n" ? [h("small", { class: "newline" }, "\u21b5"), "\n"] : visible(part)));
}

/** Tokens of a part of a segment, as texts or as ids in boxes, in parts that are drawn when they come near. */
function boxes(segment, start, end, { texts = null, special = new Set() } = {}) {
  const { input_ids: ids, loss_mask: mask, logprobs: logProbs } = segment;
  const list = h("div", { class: texts ? "boxes flow" : "boxes", ...(texts ? { dir: "auto" } : {}) });
  const part = (from, to) => {
    const element = h(texts ? "span" : "div", { class: "part" });
    const fill = () => {
      element.style.minHeight = "";
      for (let index = from; index < to; index += 1) {
        const sampled = mask?.[index] === 1;
        const logProb = logProbs?.[index];
        const known = sampled && typeof logProb === "number";
        const about = known ? `\nlog probability ${number(logProb)} (${chance(logProb)}%)` : sampled ? "" : "\nnot sampled: loss mask 0";
        const text = texts?.[index];
        const kind = `${known ? `p${step(logProb)}` : sampled ? "" : "prompt"}${special.has(ids[index]) ? " special" : ""}${texts && typeof text !== "string" ? " id" : ""}`;
        element.append(h("span", { class: `token ${kind}`.trim(), title: `id ${ids[index]}, position ${index}${text ? `, ${plain(JSON.stringify(text))}` : ""}${about}` },
          typeof text === "string" ? shownText(text) : String(ids[index])));
      }
    };
    if (from - start < PART) fill();
    else {
      element.style.minHeight = `${Math.ceil((to - from) / 16) * 24}px`;
      if (texts) element.style.display = "block";
      whenNear(element, () => {
        element.style.display = "";
        fill();
      });
    }
    return element;
  };
  for (let from = start; from < end; from += PART) list.append(part(from, Math.min(end, from + PART)));
  return list;
}

function meanLogProb(segment, start, end) {
  let [sum, count] = [0, 0];
  for (let index = start; index < end; index += 1) {
    if (typeof segment.logprobs?.[index] === "number") [sum, count] = [sum + segment.logprobs[index], count + 1];
  }
  return count ? sum / count : null;
}

// How improbable each sampled id was, as a line of bars: surprises stand out.
function surprises(segment, start, end) {
  const canvas = h("canvas", { style: { width: `min(100%, ${(end - start) * 14}px)` }, class: "surprises", role: "img", "aria-label": "Improbability of each sampled id" });
  whenNear(canvas, () => {
    const [width, height, scale] = [canvas.clientWidth || 300, 30, devicePixelRatio || 1];
    Object.assign(canvas, { width: width * scale, height: height * scale });
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const colours = [0, 1, 2, 3, 4, 5].map((index) => style.getPropertyValue(`--p${index}-line`).trim());
    const wide = width / (end - start);
    const worst = new Map(); // of the ids that share a pixel
    for (let index = start; index < end; index += 1) {
      const x = Math.floor((index - start) * wide);
      worst.set(x, Math.min(worst.get(x) ?? 0, Number(segment.logprobs?.[index]) || 0));
    }
    for (const [x, logProb] of worst) {
      pen.fillStyle = colours[step(logProb)];
      const tall = Math.max(1.5, Math.min(1, -logProb / 5) * height);
      pen.fillRect(x, height - tall, Math.max(1, wide - (wide > 3 ? 1 : 0)), tall);
    }
  });
  return canvas;
}

function turnText(turn) {
  const parts = turn.filter((entry) => ["reasoning", "call", "assistant"].includes(entry.kind));
  return parts.map((entry) => h("div", {}, h("h4", { class: "who" }, entry.kind === "call" ? "Call " : entry.kind === "reasoning" ? "Reasoning" : "Model", entry.kind === "call" && h("bdi", { class: "name" }, plain(entry.name))), block(entry.text.trim())));
}

// The texts of a segment, from the tokenizer or from what the engine reported with the messages of its turns.
function textsFor(segment, index, turns, options) {
  if (options.ids) return null;
  const ids = Array.isArray(segment.input_ids) ? segment.input_ids : [];
  const texts = decoded(ids, options.pieces);
  if (texts) return texts;
  const reported = turns.filter(({ span }) => span && span[0] === index).map((turn) => [turn, textsOf(turn.entries, turn.span[2] - turn.span[1])]).filter(([, found]) => found);
  if (!reported.length) return null;
  const some = ids.map(() => null);
  for (const [{ span }, found] of reported) found.forEach((text, at) => (some[span[1] + at] = text));
  return some;
}

function segmentView(segment, index, turns, { all, branch, options }) {
  const ids = Array.isArray(segment?.input_ids) ? segment.input_ids : [];
  const texts = textsFor(segment, index, turns, options);
  const how = { texts, special: new Set(options.special ?? []) };
  const runs = stretches(segment?.loss_mask, ids.length);
  const sampled = runs.reduce((sum, run) => sum + (run.sampled ? run.end - run.start : 0), 0);
  const leaves = branch && branch.parent !== null ? `leaves segment ${branch.parent + 1} after ${counted(branch.shared, "id")}` : null;
  const head = h("header", { class: "segment-head" }, h("h3", {}, all > 1 ? `Segment ${index + 1} of ${all}` : "One segment"),
    h("span", { class: "note" }, `${counted(ids.length, "id")}, ${number(sampled)} sampled`), leaves && h("span", { class: "note" }, leaves));
  const section = h("section", { class: "segment", id: `segment-${index + 1}` }, head);
  const shared = branch?.shared ?? 0;
  for (const { start: from, end, sampled: isSampled } of runs.flatMap((run) => (run.start < shared && run.end > shared ? [{ ...run, end: shared }, { ...run, start: shared }] : [run]))) {
    if (!isSampled || end <= shared) {
      const what = end <= shared ? " shared with the segment it leaves " : " of the prompt ";
      const start = texts ? h("bdi", { class: "start" }, plain(texts.slice(from, Math.min(end, from + 60)).join("").replace(/\s+/g, " ").trim().slice(0, 110))) : null;
      const folded = h("details", { class: "prompt-ids" }, h("summary", {}, counted(end - from, "id"), what, h("span", { class: "note" }, `positions ${from}\u2013${end - 1}, loss mask ${isSampled ? 1 : 0}`), start));
      folded.addEventListener("toggle", () => folded.children.length < 2 && folded.append(boxes(segment, from, end, how)));
      section.append(folded);
      continue;
    }
    const turn = turns.find(({ span }) => span && span[0] === index && span[1] === from);
    const mean = meanLogProb(segment, from, end);
    const facts = `positions ${from}\u2013${end - 1}, loss mask 1${mean === null ? "" : `, mean log probability ${number(mean)}`}`;
    section.append(h("div", { class: "sampled" },
      h("p", { class: "turn-name" }, turn ? h("b", {}, `Turn ${turn.number} `) : h("b", {}, "Sampled "), counted(end - from, "id"), " ", h("span", { class: "note" }, facts)),
      surprises(segment, from, end),
      texts || !turn ? boxes(segment, from, end, how) : h("div", { class: "aligned" }, boxes(segment, from, end, how), h("div", { class: "turn-text" }, turnText(turn.entries)))));
  }
  return section;
}

// Which token the pointer is on, or was tapped: its id, place and probability, in a line that stays in view.
function tokenLine(element) {
  const line = h("p", { class: "token-line note", role: "status" }, "point at a token, or tap it");
  const show = (event) => {
    const token = event.target.closest?.(".token");
    if (token?.title) line.replaceChildren(inline(token.title.replace(/\n/g, ", ")));
  };
  element.addEventListener("pointerover", show);
  element.addEventListener("click", show);
  return line;
}

/** The tokens view of a record; `options` has the tokenizer's `pieces` and `special` ids, `missing`, and `ids` to show ids. */
export function tokensView(record, options = {}) {
  const segments = Array.isArray(record.trajectory) ? record.trajectory.filter((each) => each && typeof each === "object") : [];
  if (!segments.length) {
    return h("p", { class: "empty" }, "This episode has no token ids: its engine reports none. The built-in model, vLLM and servers that give token ids do.");
  }
  const turns = conversation(record).turns.map((entries, index) => ({ entries, number: index + 1, span: spanOf(entries) }));
  const body = h("div", { class: "tokens" });
  const tree = branches(segments);
  const draw = (segment, index) => segmentView(fieldsOf(segment), index, turns, { all: segments.length, branch: tree[index], options });
  const open = (index) => {
    while (!body.querySelector(`#segment-${index + 1}`) && body.querySelector(":scope > .more")) body.querySelector(":scope > .more").click();
    body.querySelector(`#segment-${index + 1}`)?.scrollIntoView({ block: "start" });
  };
  const shown = segments.slice(0, 50);
  body.append(h("div", { class: "tokens-head" }, legend(), tokenLine(body)), options.missing ? h("p", { class: "note missing" }, inline(options.missing)) : "",
    segments.length > 1 ? branchMap(segments, tree, open) : "", ...shown.map(draw));
  if (segments.length > shown.length) {
    const more = button(`${segments.length - shown.length} more segments`, () => more.replaceWith(...segments.slice(50).map((segment, index) => draw(segment, index + 50))), { class: "quiet more" });
    body.append(more);
  }
  return body;
}
