// An episode as a conversation: reasoning folded, calls beside their results, errors red, a bar of time for each turn.
import { h, whenNear } from "./dom.js";
import { counted, number, seconds } from "./format.js";
import { conversation, fieldsOf, spanOf } from "./items.js";
import { fields, tree } from "./json.js";
import { prose } from "./markdown.js";
import { block, inline, plain } from "./text.js";
import { printedView, verdictsView } from "./verdicts.js";

const WHO = { user: "User", assistant: "Model", system: "System", developer: "Developer", reasoning: "Reasoning", other: "Item", output: "Result" };
const EAGER = 12; // turns drawn at once; the others when they come near

function parsedArguments(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

function reasoning(entry, options) {
  const start = entry.text.trim().replace(/\s+/g, " ").slice(0, 110);
  const folded = h("details", { class: "reasoning" }, h("summary", {}, h("span", { class: "who" }, "Reasoning"), h("bdi", { class: "start" }, plain(start))));
  folded.addEventListener("toggle", () => folded.children.length < 2 && folded.append(prose(entry.text.trim(), options)));
  return folded;
}

function call(entry) {
  const values = parsedArguments(entry.text);
  const given = values && Object.keys(values).length ? fields(Object.entries(values), { open: true }) : block(entry.text, { class: "code" });
  const { result } = entry;
  const answer = result
    ? [h("h4", { class: "who" }, result.error ? "Error" : "Result"), output(result)]
    : h("p", { class: "note" }, "no result is recorded");
  return h("div", { class: `call${result?.error ? " failed" : ""}` },
    h("div", { class: "given" }, h("h4", { class: "who" }, "Call ", inline(entry.name, { class: "name" })), given),
    h("div", { class: "result" }, answer));
}

function output(entry) {
  const value = parsedArguments(entry.text);
  if (!value) return block(entry.text, { class: "code" });
  const printed = printedView(value);
  if (printed) return printed;
  return entry.error && typeof value.error === "string" ? block(value.error, { class: "code" }) : fields(Object.entries(value), { open: true });
}

function said(entry, options) {
  if (entry.kind === "reasoning") return reasoning(entry, options);
  if (entry.kind === "call") return call(entry);
  if (entry.kind === "output") {
    return entry.paired ? null : h("div", { class: `message other${entry.error ? " failed" : ""}` }, h("h4", { class: "who" }, "Result without a call"), output(entry));
  }
  const name = entry.name ? [" ", inline(entry.name, { class: "name" })] : null;
  return h("div", { class: `message ${entry.kind}` }, h("h4", { class: "who" }, WHO[entry.kind], name), prose(entry.text.trim() || "(nothing)", options));
}

function turnSeconds(timing) {
  return { engine: Math.max(0, Number(timing?.engine) || 0), env: Math.max(0, Number(timing?.env) || 0) };
}

/** A bar of an engine's and an environment's seconds, of a longest. */
export function timeBar({ engine, env }, longest) {
  const share = (value) => ({ width: `${(100 * value) / (longest || 1)}%` });
  const title = `engine ${seconds(engine)}, environment ${seconds(env)}`;
  return h("span", { class: "timebar", title, role: "img", "aria-label": title }, h("i", { class: "engine", style: share(engine) }), h("i", { class: "env", style: share(env) }));
}

function turnHead(index, turn, times, longest, rewards) {
  const span = spanOf(turn);
  const time = times[index];
  return h("header", { class: "turn-head" }, h("h3", {}, `Turn ${index + 1}`),
    span && h("span", { class: "note" }, counted(span[2] - span[1], "token")),
    typeof rewards[index] === "number" && h("span", { class: "note" }, `reward ${number(rewards[index])}`),
    time && [h("span", { class: "fill" }), timeBar(time, longest), h("span", { class: "note" }, seconds(time.engine + time.env))]);
}

function tools(record) {
  const list = fieldsOf(record.responses_create_params).tools;
  if (!Array.isArray(list) || !list.length) return null;
  return h("details", { class: "tools" }, h("summary", {}, h("span", { class: "who" }, counted(list.length, "tool")), h("bdi", { class: "start" }, plain(list.map((tool) => tool?.name ?? tool?.function?.name ?? "?").join(", ").slice(0, 110)))), tree(list, { open: true }));
}

/** The seconds of each turn, if the record says them. */
export function turnTimes(record) {
  return Array.isArray(record.turn_timing) ? record.turn_timing.map(turnSeconds) : [];
}

/** The whole conversation of a record; with `source` as it is written, not as Markdown. */
export function conversationView(record, options) {
  const { request, turns } = conversation(record);
  const times = turnTimes(record);
  const rewards = Array.isArray(record.turn_rewards) ? record.turn_rewards : [];
  const longest = Math.max(...times.map((time) => time.engine + time.env), 0);
  const sections = turns.map((turn, index) => {
    const section = h("section", { class: "turn" }, turnHead(index, turn, times, longest, rewards));
    const fill = () => section.append(...turn.map((entry) => said(entry, options)).filter(Boolean));
    if (index < EAGER) fill();
    else whenNear(section, fill);
    return section;
  });
  return h("div", { class: "conversation" },
    h("section", { class: "turn request" }, tools(record), request.map((entry) => said(entry, options))),
    sections,
    !turns.length && h("p", { class: "note" }, "The model has said nothing in this episode."),
    record.error && failure(record),
    verdictsView(record, options));
}

/** Why an episode has no reward. */
export function failure(record) {
  const phase = record.error_phase ? ` in ${record.error_phase}` : "";
  return h("section", { class: "failure", role: "note" },
    h("h3", {}, "Failed", h("bdi", {}, plain(phase)), record.failure_kind && [": ", inline(record.failure_kind, { class: "name" })]),
    block(record.error),
    record.traceback && h("details", {}, h("summary", {}, "Traceback"), block(record.traceback, { class: "code" })));
}
