// What the model saw and sampled, id by id: sampled ids are coloured by how improbable they were.
import { button, h, whenNear } from "./dom.js";
import { counted, number } from "./format.js";
import { conversation, fieldsOf, spanOf } from "./items.js";
import { block, plain, visible } from "./text.js";

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

/** A list of ids as coloured boxes, in parts that are drawn when they come near. */
function boxes(segment, start, end, { texts = null } = {}) {
  const { input_ids: ids, loss_mask: mask, logprobs: logProbs } = segment;
  const list = h("div", { class: "boxes" });
  const part = (from, to) => {
    const element = h("div", { class: "part" });
    const fill = () => {
      element.style.minHeight = "";
      for (let index = from; index < to; index += 1) {
        const sampled = mask?.[index] === 1;
        const logProb = logProbs?.[index];
        const known = sampled && typeof logProb === "number";
        const about = known ? `\nlog probability ${number(logProb)} (${chance(logProb)}%)` : sampled ? "" : "\nnot sampled: loss mask 0";
        const text = texts?.[index - start];
        element.append(h("span", { class: `token ${known ? `p${step(logProb)}` : sampled ? "" : "prompt"}`, title: `id ${ids[index]}, position ${index}${text ? `, ${plain(text)}` : ""}${about}` },
          text === undefined || text === null ? String(ids[index]) : visible(text)));
      }
    };
    if (from - start < PART) fill();
    else {
      element.style.minHeight = `${Math.ceil((to - from) / 16) * 24}px`;
      whenNear(element, fill);
    }
    return element;
  };
  for (let from = start; from < end; from += PART) list.append(part(from, Math.min(end, from + PART)));
  return list;
}

// Stretches of one loss mask.
function stretches(mask, length) {
  const found = [];
  for (let start = 0; start < length; ) {
    let end = start + 1;
    while (end < length && (mask?.[end] === 1) === (mask?.[start] === 1)) end += 1;
    found.push({ start, end, sampled: mask?.[start] === 1 });
    start = end;
  }
  return found;
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

function segmentView(segment, index, turns, all) {
  const ids = Array.isArray(segment?.input_ids) ? segment.input_ids : [];
  const runs = stretches(segment?.loss_mask, ids.length);
  const sampled = runs.reduce((sum, run) => sum + (run.sampled ? run.end - run.start : 0), 0);
  const head = h("header", { class: "segment-head" }, h("h3", {}, all > 1 ? `Segment ${index + 1} of ${all}` : "One segment"),
    h("span", { class: "note" }, `${counted(ids.length, "id")}, ${number(sampled)} sampled`));
  const section = h("section", { class: "segment" }, head);
  for (const { start, end, sampled: isSampled } of runs) {
    if (!isSampled) {
      const folded = h("details", { class: "prompt-ids" }, h("summary", {}, counted(end - start, "id"), " of the prompt ", h("span", { class: "note" }, `positions ${start}\u2013${end - 1}, loss mask 0`)));
      folded.addEventListener("toggle", () => folded.children.length < 2 && folded.append(boxes(segment, start, end)));
      section.append(folded);
      continue;
    }
    const turn = turns.find(({ span }) => span && span[0] === index && span[1] === start);
    const mean = meanLogProb(segment, start, end);
    const facts = `positions ${start}\u2013${end - 1}, loss mask 1${mean === null ? "" : `, mean log probability ${number(mean)}`}`;
    section.append(h("div", { class: "sampled" },
      h("p", { class: "turn-name" }, turn ? h("b", {}, `Turn ${turn.number} `) : h("b", {}, "Sampled "), counted(end - start, "id"), " ", h("span", { class: "note" }, facts)),
      surprises(segment, start, end),
      h("div", { class: turn ? "aligned" : "" }, boxes(segment, start, end, { texts: turn && textsOf(turn.entries, end - start) }), turn && h("div", { class: "turn-text" }, turnText(turn.entries)))));
  }
  return section;
}

/** The tokens view of a record. */
export function tokensView(record) {
  const segments = Array.isArray(record.trajectory) ? record.trajectory.filter((each) => each && typeof each === "object") : [];
  if (!segments.length) {
    return h("p", { class: "empty" }, "This episode has no token ids: its engine reports none. The built-in model, vLLM and servers that give token ids do.");
  }
  const turns = conversation(record).turns.map((entries, index) => ({ entries, number: index + 1, span: spanOf(entries) }));
  const element = h("div", { class: "tokens" }, legend());
  const shown = segments.slice(0, 50);
  element.append(...shown.map((segment, index) => segmentView(fieldsOf(segment), index, turns, segments.length)));
  if (segments.length > shown.length) {
    const more = button(`${segments.length - shown.length} more segments`, () => {
      more.replaceWith(...segments.slice(50).map((segment, index) => segmentView(segment, index + 50, turns, segments.length)));
    }, { class: "quiet more" });
    element.append(more);
  }
  return element;
}
