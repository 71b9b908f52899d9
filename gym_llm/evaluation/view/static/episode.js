// One episode: how it ended, its siblings of the same task, and what was said, sampled, or different.
import { answerNames, answersView } from "./answers.js";
import { button, h } from "./dom.js";
import { conversationView, timeBar, turnTimes } from "./conversation.js";
import { diffView } from "./diff.js";
import { counted, number, seconds } from "./format.js";
import { details, fieldsOf, taskFields } from "./items.js";
import { fields } from "./json.js";
import { mark, rowMark } from "./marks.js";
import { atSeat, seatStrip } from "./seats.js";
import { rewardPill } from "./table.js";
import { block, inline, named } from "./text.js";
import { tokensView } from "./tokens.js";
import { verdictNames } from "./verdicts.js";

const TABS = [["", "Conversation"], ["tokens", "Tokens"], ["diff", "Compare"], ["record", "Record"]];

function verdict(record, range) {
  if (record.outcome === "masked") {
    return h("div", { class: "verdict" }, h("span", { class: "big masked" }, mark(null, range, { size: 26 }), "no reward"), h("p", {}, "failed: ", inline(record.failure_kind ?? "unknown")),
      record.error && block(String(record.error).slice(0, 200)),
      typeof record.attempts === "number" && record.attempts > 1 && h("p", {}, `after ${counted(record.attempts, "attempt")}`));
  }
  return h("div", { class: "verdict" }, h("span", { class: "big" }, mark(record.reward, range, { size: 26 }), number(record.reward)),
    h("p", {}, record.outcome === "truncated" ? "truncated: cut off by a limit, and scored" : inline(record.outcome ?? "scored")));
}

function components(record) {
  const parts = Object.entries(fieldsOf(fieldsOf(record.info).reward_components)).filter(([, value]) => typeof value === "number");
  if (!parts.length) return null;
  const most = Math.max(...parts.map(([, value]) => Math.abs(value)), 1e-12);
  return h("section", { class: "panel components-panel" }, h("h3", {}, "Reward components"), h("dl", { class: "components" }, parts.map(([name, value]) => h("div", {},
    h("dt", {}, named(name)), h("dd", {}, h("span", { class: "meter" }, h("i", { class: value < 0 ? "minus" : "", style: { width: `${(100 * Math.abs(value)) / most}%` } })), number(value))))));
}

function panel(title, ...content) {
  return h("section", { class: "panel" }, h("h3", {}, title), content);
}

function listed(title, object) {
  const entries = Object.entries(object);
  return entries.length ? panel(title, fields(entries)) : null;
}

// What `gym-llm health` counts in a file, for this episode.
function signs(record) {
  const found = Object.entries(fieldsOf(record.view_signs));
  return found.length ? h("section", { class: "panel signs" }, h("h3", {}, "Signs of trouble"), fields(found)) : null;
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
  const { trajectory, view_signs, ...rest } = record;
  return h("div", { class: "raw" }, fields([...Object.entries(rest), ...(trajectory ? [["trajectory", trajectory]] : [])]));
}

function siblingStrip(siblings, row, range, open) {
  if (siblings.length < 2) return null;
  return h("nav", { class: "siblings", "aria-label": "Episodes of this task" }, h("span", { class: "note" }, "repeats"), siblings.slice(0, 200).map((sibling) => {
    const current = sibling.n === row.n;
    const masked = sibling.reward === null || sibling.outcome === "masked";
    const label = `repeat ${sibling.repeat}: ${masked ? "masked" : `reward ${number(sibling.reward)}`}`;
    return button(rowMark(sibling, range, { size: 17 }), () => open(sibling), { class: "sibling", title: label, "aria-label": label, "aria-current": current ? "true" : null });
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
    const { siblings } = this.#shown;
    const record = atSeat(this.#shown.record, route.seat);
    const open = (sibling) => this.#go({ ...route, task: sibling.task, repeat: sibling.repeat, n: sibling.n, vs: undefined });
    const sit = (seat) => this.#go({ ...route, n: row.n, seat }, { replace: true });
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
    const apart = new Set([...answerNames(record), ...verdictNames(record)]);
    const others = (object) => Object.fromEntries(Object.entries(object).filter(([name]) => !apart.has(name)));
    const talk = current === "" || current === "record";
    const outcome = h("div", { class: "outcome-strip" }, verdict(record, range), answersView(record), components(record));
    const facts = h("aside", { class: "facts", "aria-label": "Facts" }, record.view_note && h("p", { class: "note" }, record.view_note), signs(record), listed("Verifier", others(details(record))),
      listed("Task", others(taskFields(record))), timing(record), numbers(record));
    this.element.replaceChildren(
      h("header", { class: "episode-head" },
        h("div", { class: "title" }, h("h1", {}, typeof row.task === "number" ? [`Task ${row.task}`, h("span", {}, ` repeat ${row.repeat}`)] : episodeName(row)), !talk && rewardPill(row, range), row.dataset && h("span", { class: "chip" }, inline(row.dataset))),
        siblingStrip(siblings, row, range, open), seatStrip(this.#shown.record, route.seat, sit), ["", "tokens"].includes(current) && this.#sourceButton(route, row, current), tabList),
      talk ? outcome : "",
      h("div", { class: talk ? "columns" : "columns wide" }, body, talk ? facts : null));
  }

  // Texts as Markdown with formulas, or letter for letter.
  #sourceButton(route, row, tab) {
    const source = route.text === "source";
    const [label, title] = tab === "tokens" ? ["Ids", "token ids, not texts (s)"] : ["As written", "texts letter for letter, not as Markdown and formulas (s)"];
    return button(label, () => this.#go({ ...route, n: row.n, text: source ? undefined : "source" }, { replace: true }), { class: "toggle", "aria-pressed": source ? "true" : "false", title });
  }

  async #body(tab, route, row) {
    const { siblings } = this.#shown;
    const record = atSeat(this.#shown.record, route.seat);
    if (tab === "tokens") {
      this.#shown.pieces ??= await this.#source.pieces(route.run, row.n);
      return tokensView(record, { ...this.#shown.pieces, ids: route.text === "source" });
    }
    if (tab === "record") return rawRecord(this.#shown.record);
    if (tab !== "diff") return conversationView(record, { source: route.text === "source" });
    const others = siblings.filter((sibling) => sibling.n !== row.n);
    const other = others.find((sibling) => sibling.repeat === route.vs) ?? others.find((sibling) => sibling.reward !== row.reward) ?? others[0];
    const nameOf = (sibling) => `repeat ${sibling.repeat}, ${sibling.reward === null ? "masked" : `reward ${number(sibling.reward)}`}`;
    const choice = h("select", { id: "vs", on: { change: (event) => this.#go({ ...route, n: row.n, vs: Number(event.target.value) }, { replace: true }) } },
      others.slice(0, 500).map((sibling) => h("option", { value: sibling.repeat, selected: sibling === other }, nameOf(sibling))));
    const compared = diffView(record, atSeat(await this.#source.episode(route.run, other.n), route.seat), [nameOf(row), nameOf(other)]);
    return [h("p", { class: "compare-with" }, h("label", { for: "vs" }, `Repeat ${row.repeat} beside `), choice, h("span", { class: "note" }, ` ${counted(siblings.length, "episode")} of this task`)), compared];
  }
}
