// A record's items as turns of a conversation. A record is a line of somebody's file: any field may have any kind.
import { asText } from "./text.js";

const OWN = new Set([
  "rollout_id", "env_id", "dataset", "responses_create_params", "response", "outcome", "reward", "terminated", "truncated",
  "failure_kind", "error", "error_phase", "traceback", "info", "trajectory", "attempts", "task_fields", "timing",
  "turn_timing", "turn_rewards", "seats", "schema_version", "view_note", "view_signs",
  "task_source", "task_key", "task_sha256", "made_by",
]);

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const listOf = (value) => (Array.isArray(value) ? value : []);

/** The fields of an object, or none. */
export function fieldsOf(value) {
  return isObject(value) ? value : {};
}

/** The task's own fields in a record. */
export function taskFields(record) {
  const own = Object.entries(record).filter(([name]) => !OWN.has(name));
  return Object.fromEntries([...own, ...Object.entries(fieldsOf(record.task_fields))]);
}

/** The verifier's details: an info without what has a place of its own. */
export function details(record) {
  const apart = new Set(["task_index", "turn", "tool_errors", "reward_components"]);
  return Object.fromEntries(Object.entries(fieldsOf(record.info)).filter(([name]) => !apart.has(name)));
}

function contentText(content) {
  if (typeof content === "string") return content;
  return listOf(content).map((part) => {
    if (!isObject(part)) return asText(part);
    const text = part.text ?? part.refusal;
    return typeof text === "string" ? text : `[${asText(part.type ?? "part")}: ${asText(part).slice(0, 2000)}]`;
  }).join("\n");
}

// A tool's output that reports an error: `{"error": "..."}` and nothing else.
function isError(output) {
  if (typeof output !== "string" || !output.startsWith('{"error"')) return false;
  try {
    const value = JSON.parse(output);
    return isObject(value) && Object.keys(value).length === 1;
  } catch {
    return false;
  }
}

/** One item as `{kind, text, name, callId, error, item}`; `kind` is one of our own words. */
function entryOf(item) {
  if (typeof item === "string") return { kind: "user", text: item, item };
  if (!isObject(item)) return { kind: "other", name: typeof item, text: asText(item), item };
  if (item.type === "reasoning") {
    const text = [contentText(item.summary), contentText(item.content)].filter(Boolean).join("\n");
    return { kind: "reasoning", text: text || (item.encrypted_content ? "(encrypted)" : ""), item };
  }
  if (item.type === "function_call") return { kind: "call", name: asText(item.name), text: asText(item.arguments), callId: item.call_id, item };
  if (item.type === "function_call_output") {
    const text = typeof item.output === "string" ? item.output : Array.isArray(item.output) ? contentText(item.output) : asText(item.output);
    return { kind: "output", text, callId: item.call_id, error: isError(item.output), item };
  }
  if ((item.type ?? "message") === "message") {
    const kind = ["user", "assistant", "system", "developer"].includes(item.role) ? item.role : "other";
    return { kind, name: kind === "other" ? asText(item.role) : undefined, text: contentText(item.content), item };
  }
  return { kind: "other", name: asText(item.type), text: asText(item), item };
}

/** All items of a list as entries. */
export function entriesOf(items) {
  return listOf(items).map(entryOf);
}

const MODEL = new Set(["reasoning", "call", "assistant", "other"]);

/** All that was said: `{request: [...entries], turns: [[...entries]]}`; in a turn what the model said comes first. */
export function conversation(record) {
  const request = fieldsOf(record.responses_create_params);
  const asked = typeof request.input === "string" ? [request.input] : listOf(request.input);
  const entries = asked.map(entryOf);
  if (request.instructions) entries.unshift({ kind: "system", text: asText(request.instructions), item: null });
  const turns = [];
  let models = false;
  for (const item of listOf(fieldsOf(record.response).output)) {
    const entry = entryOf(item);
    const isModel = MODEL.has(entry.kind);
    if (!turns.length || (isModel && !models)) turns.push([]);
    turns[turns.length - 1].push(entry);
    models = isModel;
  }
  for (const each of [entries, ...turns]) pair(each);
  return { request: entries, turns };
}

// Puts the output of a call beside it.
function pair(entries) {
  const open = entries.filter((entry) => entry.kind === "call");
  for (const entry of entries.filter((each) => each.kind === "output")) {
    const index = open.findIndex((call) => call.callId === entry.callId);
    if (index < 0) continue;
    open[index].result = entry;
    entry.paired = true;
    open.splice(index, 1);
  }
}

/** Where a turn's sampled ids are: `[segment, start, end]`, or null. */
export function spanOf(turn) {
  for (const entry of turn) {
    const span = entry.item?.trajectory_span;
    if (Array.isArray(span) && span.length === 3 && span.every(Number.isInteger)) return span;
  }
  return null;
}
