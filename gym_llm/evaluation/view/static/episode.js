// One episode: how it ended, its siblings of the same task, and what was said, sampled, or different.
import { button, h } from "./dom.js";
import { conversationView, timeBar, turnTimes } from "./conversation.js";
import { diffView } from "./diff.js";
import { counted, number, rewardColour, seconds } from "./format.js";
import { details, fieldsOf, taskFields } from "./items.js";
import { fields } from "./json.js";
import { rewardPill } from "./table.js";
import { block, inline, named } from "./text.js";
import { tokensView } from "./tokens.js";

const TABS = [["", "Conversation"], ["tokens", "Tokens"], ["diff", "Compare"], ["record", "Record"]];

function verdict(record, range) {
  if (record.outcome === "masked") {
    return h("div", { class: "verdict" }, h("span", { class: "big masked" }, "no reward"), h("p", {}, "failed: ", inline(record.failure_kind ?? "unknown")),
      record.error && block(String(record.error).slice(0, 300)));
  }
  const colour = typeof record.reward === "number" ? rewardColour(record.reward, ...range) : "transparent";
  return h("div", { class: "verdict" }, h("span", { class: "big" }, h("i", { class: "swatch", style: { background: colour } }), number(record.reward)),
    h("p", {}, record.outcome === "truncated" ? "truncated: cut off by a limit, and scored" : inline(record.outcome ?? "scored")));
}

function components(record) {
  const parts = Object.entries(fieldsOf(fieldsOf(record.info).reward_components)).filter(([, value]) => typeof value === "number");
  if (!parts.length) return null;
  const most = Math.max(...parts.map(([, value]) => Math.abs(value)), 1e-12);
  return panel("Reward components", h("dl", { class: "components" }, parts.map(([name, value]) => h("div", {},
    h("dt", {}, named(name)), h("dd", {}, h("span", { class: "meter" }, h("i", { class: value < 0 ? "minus" : "", style: { width: `${(100 * Math.abs(value)) / most}%` } })), number(value))))));
}

function panel(title, ...content) {
  return h("section", { class: "panel" }, h("h3", {}, title), content);
}

function listed(title, object) {
  const entries = Object.entries(object);
  return entries.length ? panel(title, fields(entries)) : null;
}

function timing(record) {
  const times = fieldsOf(record.timing);
  const total = Number(times.total) || 0;
  if (!total) return null;
  const turns = turnTimes(record);
  const engine = Number(times.engine) || 0;
  const env = turns.length ? turns.reduce((sum, turn) => sum + turn.env, 0) : Math.max(0, total - engine);
  const longest = Math.max(...turns.map((turn) => turn.engine + turn.env), 0);
  const others = Object.entries(times).filter(([name]) => !["total", "engine"].includes(name));
  return panel("Time", h("p", { class: "time-total" }, h("b", {}, seconds(total)), h("span", { class: "key" }, h("i", { class: "engine" }), `engine ${seconds(engine)}`), h("span", { class: "key" }, h("i", { class: "env" }), `environment ${seconds(env)}`)),
    timeBar({ engine, env }, Math.max(total, engine + env)),
    turns.length > 1 && h("ol", { class: "turn-times" }, turns.slice(0, 40).map((turn) => h("li", {}, timeBar(turn, longest), h("span", {}, seconds(turn.engine + turn.env))))),
    others.length > 0 && fields(others));
}

function numbers(record) {
  const usage = fieldsOf(fieldsOf(record.response).usage);
  const info = fieldsOf(record.info);
  const { input, tools, instructions, ...sampling } = fieldsOf(record.responses_create_params);
  const facts = {
    environment: record.env_id, dataset: record.dataset, model: fieldsOf(record.response).model, turns: info.turn, "tool errors": info.tool_errors,
    "tokens in": usage.input_tokens, "tokens out": usage.output_tokens, attempts: record.attempts, ...sampling,
  };
  return listed("Episode", Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined && value !== null && value !== "")));
}

function rawRecord(record) {
  const { trajectory, ...rest } = record;
  return h("div", { class: "raw" }, fields([...Object.entries(rest), ...(trajectory ? [["trajectory", trajectory]] : [])]));
}

function siblingStrip(siblings, row, range, open) {
  if (siblings.length < 2) return null;
  return h("nav", { class: "siblings", "aria-label": "Episodes of this task" }, h("span", { class: "note" }, "repeats"), siblings.slice(0, 200).map((sibling) => {
    const current = sibling.n === row.n;
    const masked = sibling.reward === null || sibling.outcome === "masked";
    const label = `repeat ${sibling.repeat}: ${masked ? "masked" : `reward ${number(sibling.reward)}`}`;
    const attributes = { class: `sibling${masked ? " hatched" : ""}`, title: label, "aria-label": label, "aria-current": current ? "true" : null };
    return button(h("i", masked ? {} : { style: { background: rewardColour(sibling.reward, ...range) } }), () => open(sibling), attributes);
  }));
}

/** What an episode is called. */
export function episodeName({ task, repeat, n }) {
  if (typeof task !== "number") return `line ${n + 1}`;
  return repeat === undefined ? `task ${task}` : `task ${task}, repeat ${repeat}`;
}

// A line of the file that is no record.
function unreadable(record) {
  return h("section", { class: "failure", role: "note" }, h("h3", {}, "This line of the file is no record"), block(record.view_error), record.view_text && block(record.view_text, { class: "code" }));
}

/** What the page of an episode shows; `go` changes the route. */
export class EpisodePage {
  element = h("main", { class: "episode", tabindex: "-1" });
  #source;
  #go;
  #shown = null;

  constructor(source, go) {
    this.#source = source;
    this.#go = go;
  }

  /** Shows an episode: `row` says which, `range` between which rewards colours lie. */
  async show(route, row, range) {
    const key = `${route.run}/${row.n}`;
    if (this.#shown?.key !== key) {
      const [record, siblings] = await Promise.all([this.#source.episode(route.run, row.n), this.#source.siblings(route.run, row.n)]);
      siblings.sort((one, other) => one.repeat - other.repeat || one.n - other.n);
      this.#shown = { key, record, siblings };
    }
    const { record, siblings } = this.#shown;
    const open = (sibling) => this.#go({ ...route, task: sibling.task, repeat: sibling.repeat, n: sibling.n, vs: undefined });
    if (record.view_error) return this.element.replaceChildren(h("header", { class: "episode-head" }, h("h1", {}, episodeName(row))), unreadable(record));
    const tabs = TABS.filter(([tab]) => tab !== "diff" || siblings.length > 1);
    const current = tabs.some(([tab]) => tab === route.tab) ? route.tab : "";
    const choose = (tab) => this.#go({ ...route, n: row.n, tab, vs: undefined }, { replace: true });
    const tabList = h("div", { class: "tabs", role: "tablist", "aria-label": "Views" }, tabs.map(([tab, name]) =>
      button(name, () => choose(tab), { role: "tab", id: `tab-${tab || "conversation"}`, "aria-selected": tab === current ? "true" : "false", tabindex: tab === current ? "0" : "-1" })));
    tabList.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      const index = tabs.findIndex(([tab]) => tab === current);
      choose(tabs[(index + step + tabs.length) % tabs.length][0]);
      this.element.querySelector('[role="tab"][aria-selected="true"]').focus();
    });
    const body = h("div", { class: "body", role: "tabpanel", "aria-labelledby": `tab-${current || "conversation"}` }, await this.#body(current, route, row));
    const facts = h("aside", { class: "facts", "aria-label": "Facts" }, verdict(record, range), components(record), record.view_note && h("p", { class: "note" }, record.view_note), listed("Verifier", details(record)),
      listed("Task", taskFields(record)), timing(record), numbers(record));
    this.element.replaceChildren(
      h("header", { class: "episode-head" },
        h("div", { class: "title" }, h("h1", {}, typeof row.task === "number" ? [`Task ${row.task}`, h("span", {}, ` repeat ${row.repeat}`)] : episodeName(row)), rewardPill(row, range)),
        siblingStrip(siblings, row, range, open), tabList),
      h("div", { class: current === "" || current === "record" ? "columns" : "columns wide" }, body, current === "" || current === "record" ? facts : null));
  }

  async #body(tab, route, row) {
    const { record, siblings } = this.#shown;
    if (tab === "tokens") return tokensView(record);
    if (tab === "record") return rawRecord(record);
    if (tab !== "diff") return conversationView(record);
    const others = siblings.filter((sibling) => sibling.n !== row.n);
    const other = others.find((sibling) => sibling.repeat === route.vs) ?? others.find((sibling) => sibling.reward !== row.reward) ?? others[0];
    const nameOf = (sibling) => `repeat ${sibling.repeat}, ${sibling.reward === null ? "masked" : `reward ${number(sibling.reward)}`}`;
    const choice = h("select", { id: "vs", on: { change: (event) => this.#go({ ...route, n: row.n, vs: Number(event.target.value) }, { replace: true }) } },
      others.slice(0, 500).map((sibling) => h("option", { value: sibling.repeat, selected: sibling === other }, nameOf(sibling))));
    const compared = diffView(record, await this.#source.episode(route.run, other.n), [nameOf(row), nameOf(other)]);
    return [h("p", { class: "compare-with" }, h("label", { for: "vs" }, `Repeat ${row.repeat} beside `), choice, h("span", { class: "note" }, ` ${counted(siblings.length, "episode")} of this task`)), compared];
  }
}
