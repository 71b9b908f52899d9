// What judges were asked and said, and what programs printed: each in a place of its own, not among the numbers.
import { h } from "./dom.js";
import { counted } from "./format.js";
import { details, entriesOf, fieldsOf } from "./items.js";
import { fields } from "./json.js";
import { prose } from "./markdown.js";
import { block, inline, named, plain } from "./text.js";

const MOST = 40; // calls
const PRINTED = /^(std(out|err)|output|printed|logs?|compile_error|error_message|error|traceback|test_output|sandbox_output|execution_(result|output|error))$/;
const TESTED = /^(results?|test_case_results|tests|test_results|metadata|details|base_details|plus_details)$/;

const WHO = { user: "Asked", assistant: "Judge", system: "System", developer: "Developer", reasoning: "Reasoning" };

function judgeCall(call, index, options) {
  const request = fieldsOf(call.responses_create_params);
  const label = call.verdict_label ?? call.verdict ?? call.label;
  const head = h("summary", {}, h("span", { class: "who" }, `Judge, call ${index + 1}`), label !== undefined && label !== null && h("span", { class: "chip" }, "verdict ", h("b", {}, inline(typeof label === "string" ? label : JSON.stringify(label)))),
    h("bdi", { class: "start" }, plain(entriesOf(fieldsOf(call.response).output).map((entry) => entry.text).join(" ").replace(/\s+/g, " ").trim().slice(0, 140))));
  const folded = h("details", { class: "judge" }, head);
  let filled = false;
  folded.addEventListener("toggle", () => {
    if (filled || !folded.open) return;
    filled = true;
    const asked = typeof request.input === "string" ? [request.input] : request.input;
    const said = [...entriesOf(asked), ...entriesOf(fieldsOf(call.response).output)];
    folded.append(...said.map((entry) => h("div", { class: `message ${entry.kind}` }, h("h4", { class: "who" }, WHO[entry.kind] ?? "Item"), prose(entry.text.trim() || "(nothing)", options))));
    const others = Object.entries(call).filter(([name]) => !["responses_create_params", "response", "verdict_label"].includes(name));
    if (others.length || !said.length) folded.append(fields(said.length ? others : Object.entries(call)));
  });
  return folded;
}

/** The names of the fields of an info that have a place here. */
export function verdictNames(record) {
  const info = details(record);
  return new Set(["judge_evaluations", ...Object.keys(info).filter((name) => isPrinted(name, info[name]) || isTested(name, info[name]))]);
}

const isPrinted = (name, value) => PRINTED.test(name) && typeof value === "string" && value.trim() !== "";
const isTested = (name, value) => TESTED.test(name) && typeof value === "object" && value !== null && Object.keys(value).length > 0;

// The results of tests as marks: a tick, a cross, or another value as a text.
function results(list) {
  return h("span", { class: "results" }, list.slice(0, 200).map((value, index) => {
    const kind = value === true || value === 1 ? "passed" : value === false || value === 0 ? "failed" : "other";
    const label = `test ${index + 1}: ${kind === "other" ? plain(String(value)).slice(0, 40) : kind}`;
    return h("i", { class: kind, title: label, role: "img", "aria-label": label }, kind === "passed" ? "\u2713" : kind === "failed" ? "\u2717" : plain(String(value)).slice(0, 4));
  }), list.length > 200 && h("small", {}, ` and ${list.length - 200} more`));
}

/** The judge's calls and what the sandbox printed, as sections below the conversation. */
export function verdictsView(record, options) {
  const info = details(record);
  const calls = (Array.isArray(info.judge_evaluations) ? info.judge_evaluations : []).map(fieldsOf);
  const printed = Object.entries(info).filter(([name, value]) => isPrinted(name, value));
  const tested = Object.entries(info).filter(([name, value]) => isTested(name, value));
  const sections = [];
  if (calls.length) {
    sections.push(h("section", { class: "verdicts", "aria-label": "Judge" }, h("header", { class: "turn-head" }, h("h3", {}, "Judge"), h("span", { class: "note" }, counted(calls.length, "call"))),
      calls.slice(0, MOST).map((call, index) => judgeCall(call, index, options)), calls.length > MOST && h("p", { class: "note" }, `and ${calls.length - MOST} more, in the record`)));
  }
  if (printed.length || tested.length) {
    sections.push(h("section", { class: "verdicts", "aria-label": "Programs and tests" }, h("header", { class: "turn-head" }, h("h3", {}, "Programs and tests")),
      tested.map(([name, value]) => h("div", { class: "printed" }, h("h4", { class: "who" }, named(name)), Array.isArray(value) && value.every((each) => typeof each !== "object") ? results(value) : fields(Object.entries(value)))),
      printed.map(([name, value]) => h("div", { class: "printed" }, h("h4", { class: "who" }, named(name)), terminal(value, /err|traceback/.test(name))))));
  }
  return sections;
}

/** What a program printed. */
export function terminal(text, failed = false) {
  return h("div", { class: `terminal${failed ? " failed" : ""}` }, block(text.replace(/\n$/, ""), { class: "code" }));
}

/** A tool's result that is what a program printed: `{stdout, stderr, ...}`. */
export function printedView(value) {
  const names = ["stdout", "stderr", "error_message", "traceback", "output"].filter((name) => typeof value[name] === "string" && value[name].trim());
  if (!("stdout" in value || "stderr" in value) || !names.length) return null;
  const others = Object.entries(value).filter(([name, each]) => !names.includes(name) && each !== null && each !== "");
  return [names.map((name) => [names.length > 1 && h("small", { class: "who" }, name), terminal(value[name], name !== "stdout" && name !== "output")]), others.length > 0 && fields(others)];
}

