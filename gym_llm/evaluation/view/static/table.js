// The list of episodes: only the rows near the window are in the page, so that 100,000 scroll like 100.
import { button, h, oncePerFrame } from "./dom.js";
import { number, seconds } from "./format.js";
import { rowMark } from "./marks.js";
import { inline, plain } from "./text.js";

const HEIGHT = 34; // of a row, in style.css too
const FIELD = 130; // width of a field's column
const NARROWEST = 170; // of the prompt and the last words, which share what is left
const AROUND = 12; // rows drawn above and below the window

/** What a reward, or its absence, looks like in a line. */
export function rewardPill(row, range) {
  if (row.outcome === "unreadable") return h("span", { class: "pill masked" }, "unreadable");
  if (row.outcome === "masked" || row.reward === null || row.reward === undefined) {
    return h("span", { class: "pill masked", title: "no reward: the episode failed" }, rowMark(row, range), row.failure_kind ? inline(row.failure_kind) : "masked");
  }
  return h("span", { class: "pill" }, rowMark(row, range), number(row.reward), row.outcome === "truncated" && h("small", {}, "truncated"));
}

const FIRST = [
  { name: "task", label: "Task", width: 70, cell: (row) => number(row.task) },
  { name: "repeat", label: "Repeat", width: 80, cell: (row) => number(row.repeat) },
  { name: "reward", label: "Reward", width: 118, cell: (row, list) => rewardPill(row, list.range) },
];
const LAST = [
  { name: "turns", label: "Turns", width: 74, right: true, cell: (row) => number(row.turns) },
  { name: "tool_errors", label: "Tool errors", width: 104, right: true, cell: (row) => h("span", { class: row.tool_errors ? "bad" : "none" }, number(row.tool_errors)) },
  { name: "tokens", label: "Tokens", width: 84, right: true, cell: (row) => number(row.tokens) },
  { name: "seconds", label: "Time", width: 84, right: true, cell: (row) => seconds(row.seconds) },
];
const ANSWER = { name: "answer", label: "Answer", width: 130, cell: (row) => shown(row.answer) };
const DATASET = { name: "dataset", label: "Dataset", width: 150, cell: (row) => shown(row.dataset || row.env_id) };
const PROMPT = { name: "prompt", label: "Prompt", width: 0, cell: (row) => shown(row.prompt) };
const PREVIEW = { name: null, label: "Last words", width: 0, cell: (row) => shown(row.preview) };

/** How many columns of fields fit in a width, beside the others. */
export function roomForFields(width, { datasets }) {
  const others = [...FIRST, ...LAST, ANSWER, ...(datasets ? [DATASET] : [])].reduce((sum, column) => sum + column.width, 0);
  return Math.max(0, Math.floor((width - others - 2 * NARROWEST) / FIELD));
}

function shown(value) {
  if (value === null || value === undefined || value === "") return h("span", { class: "none" }, "\u2013");
  return typeof value === "number" ? number(value) : inline(typeof value === "string" ? value : JSON.stringify(value));
}

function fieldColumn(name) {
  return { name, label: plain(name).slice(0, 40), width: FIELD, field: true, cell: (row) => shown(Object.hasOwn(row.fields ?? {}, name) ? row.fields[name] : null) };
}

/** The table; `open(row, position)` and `sort(name)` are called by it. */
export class Table {
  element;
  range = [0, 1];
  selected = -1;
  #list = null;
  #options;
  #body = h("tbody");
  #head = h("thead");
  #columns = h("colgroup");
  #drawn = new Map();
  #shownColumns = [];
  #key = "";

  constructor(options) {
    this.#options = options;
    const label = { "aria-label": "Episodes", "aria-readonly": "true", role: "grid" };
    this.element = h("table", { class: "episodes", ...label }, this.#columns, this.#head, this.#body);
    const draw = oncePerFrame(() => this.draw());
    addEventListener("scroll", draw, { passive: true });
    addEventListener("resize", draw);
  }

  /** Shows another list, or the same in another order. */
  show(list, { sort, desc, fields, datasets, range }) {
    this.#list = list;
    this.range = range;
    const columns = [...FIRST, ...(datasets ? [DATASET] : []), PROMPT, ...(fields.includes("extracted_answer") ? [] : [ANSWER]), ...fields.map(fieldColumn), PREVIEW, ...LAST];
    const key = JSON.stringify([columns.map((column) => column.name), sort, desc]);
    this.#drawn.clear();
    if (key !== this.#key) {
      this.#key = key;
      this.#shownColumns = columns;
      this.#drawHead(sort, desc);
    }
    this.draw();
  }

  /** Draws again what is seen, from rows that may have changed. */
  redraw() {
    this.#drawn.clear();
    this.draw();
  }

  #drawHead(sort, desc) {
    this.#columns.replaceChildren(...this.#shownColumns.map((column) => h("col", { style: { width: column.width ? `${column.width}px` : "auto" } })));
    const cells = this.#shownColumns.map((column) => {
      const order = column.name !== null && column.name === sort ? (desc ? "descending" : "ascending") : null;
      const label = column.field ? h("bdi", {}, column.label) : column.label;
      const inside = column.name === null ? label : button(label, () => this.#options.sort(column.name), { "data-sort": column.name });
      return h("th", { scope: "col", "aria-sort": order, class: column.right ? "right" : null }, inside);
    });
    this.#head.replaceChildren(h("tr", {}, cells));
    this.element.style.minWidth = `${this.#shownColumns.reduce((sum, column) => sum + (column.width || NARROWEST), 0)}px`;
  }

  /** Puts the rows near the window into the page. */
  draw() {
    const list = this.#list;
    if (!list || !this.element.isConnected || this.element.closest("[hidden]")) return;
    const top = this.#body.getBoundingClientRect().top;
    const from = Math.max(0, Math.min(list.total, Math.floor(-top / HEIGHT) - AROUND));
    const to = Math.min(list.total, Math.max(from + AROUND, Math.ceil((innerHeight - top) / HEIGHT) + AROUND)); // some also while the list is below the window
    list.need(from, Math.max(to, from + 1)).then((fetched) => fetched && this.#list === list && this.draw(), () => {});
    const rows = [];
    for (let position = from; position < to; position += 1) rows.push(this.#row(position));
    for (const position of this.#drawn.keys()) if (position < from || position >= to) this.#drawn.delete(position);
    this.element.setAttribute("aria-rowcount", list.total + 1);
    this.#body.replaceChildren(space(from), ...rows, space(list.total - to));
  }

  #row(position) {
    const row = this.#list.at(position);
    const drawn = this.#drawn.get(position);
    if (drawn && drawn.row === row) return drawn.element;
    const element = h("tr", { "aria-rowindex": position + 2, "aria-selected": position === this.selected ? "true" : null });
    if (row) {
      const cells = this.#shownColumns.map((column, index) => {
        const content = column.cell(row, this);
        const link = index === 0 ? h("a", { href: this.#options.link(row), "aria-label": typeof row.task === "number" ? `Task ${row.task}, repeat ${row.repeat}` : `Line ${row.n + 1}` }, content) : content;
        return h("td", { class: column.right ? "right" : null }, link);
      });
      element.append(...cells);
      element.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || String(getSelection())) return;
        event.preventDefault();
        this.#options.open(row, position);
      });
    } else {
      element.append(h("td", { colspan: this.#shownColumns.length, class: "waiting" }, "\u2026"));
    }
    this.#drawn.set(position, { row, element });
    return element;
  }

  /** Moves the selection, and the window with it. */
  select(position) {
    if (!this.#list?.total) return;
    this.selected = Math.max(0, Math.min(this.#list.total - 1, position));
    const top = this.#body.getBoundingClientRect().top + this.selected * HEIGHT;
    if (top < 130) scrollBy(0, top - 130);
    else if (top > innerHeight - 2 * HEIGHT) scrollBy(0, top - innerHeight + 2 * HEIGHT);
    this.redraw();
  }

  /** The selected row. */
  get current() {
    return this.#list?.at(this.selected);
  }
}

function space(rows) {
  return h("tr", { class: "space", "aria-hidden": "true" }, h("td", { style: { height: `${Math.max(0, rows) * HEIGHT}px` } }));
}
