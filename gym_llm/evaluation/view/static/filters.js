// The bar above the list: search, bounds of rewards, dataset, order and columns.
import { button, h } from "./dom.js";
import { FILTERS } from "./route.js";
import { inline, plain } from "./text.js";

const ORDERS = [
  ["", "task order"], ["n", "as they finished"], ["reward", "lowest reward first"], ["-reward", "highest reward first"], ["task_mean", "hardest tasks first"],
  ["-output_tokens", "longest first"], ["-seconds", "slowest first"], ["-tool_errors", "most tool errors first"],
];

/** The bar; `filter(changes)` changes the route, `columns(name, chosen)` is called when a column is chosen. */
export class FilterBar {
  element = h("form", { class: "filters", role: "search", on: { submit: (event) => event.preventDefault() } });
  #filter;
  #columnChosen;
  #search;
  #dataset;
  #low;
  #high;
  #order;
  #columns = h("details", { class: "menu" }, h("summary", {}, "Columns"), h("div", { class: "menu-list" }));
  #clear;
  #found = h("p", { class: "found", role: "status" });

  constructor(filter, columnChosen) {
    this.#filter = filter;
    this.#columnChosen = columnChosen;
    let typing;
    this.#search = h("input", { type: "search", id: "search", placeholder: "Search all texts", "aria-label": "Search all texts", autocomplete: "off", spellcheck: "false" });
    this.#search.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => filter({ q: this.#search.value || undefined }), 180);
    });
    this.#dataset = h("select", { "aria-label": "Dataset", on: { change: () => filter({ dataset: this.#dataset.value || undefined }) } });
    const bound = (name, label) => h("input", { type: "number", step: "any", "aria-label": label, placeholder: label.split(" ")[1], on: { change: (event) => filter({ [name]: event.target.value || undefined }) } });
    this.#low = bound("reward_min", "Reward from");
    this.#high = bound("reward_max", "Reward to");
    this.#order = h("select", { "aria-label": "Order", on: { change: () => {
      const chosen = this.#order.value;
      filter({ sort: chosen.replace(/^-/, "") || undefined, desc: chosen.startsWith("-") ? 1 : undefined });
    } } });
    this.#clear = button("Clear", () => filter(Object.fromEntries(FILTERS.map((name) => [name, undefined]))), { class: "quiet" });
    document.addEventListener("click", (event) => this.#columns.contains(event.target) || (this.#columns.open = false));
    this.element.append(this.#search, h("span", { class: "range" }, h("span", {}, "reward"), this.#low, "\u2013", this.#high), this.#dataset, this.#order, this.#columns, this.#clear, this.#found);
  }

  /** The field that `/` goes to. */
  get searchField() {
    return this.#search;
  }

  /** Shows what a route says. */
  show(route) {
    const set = (field, value) => {
      if (document.activeElement !== field || !value) field.value = value ?? "";
    };
    set(this.#search, route.q);
    set(this.#low, route.reward_min);
    set(this.#high, route.reward_max);
    this.#clear.hidden = !FILTERS.some((name) => route[name]);
    const order = route.sort && (route.sort !== "task" || route.desc) ? `${route.desc ? "-" : ""}${route.sort}` : "";
    const known = ORDERS.some(([name]) => name === order);
    this.#order.replaceChildren(...ORDERS.map(([name, label]) => h("option", { value: name, selected: name === order }, label)),
      ...(known ? [] : [h("option", { value: order, selected: true }, `by ${plain(route.sort)}`)]));
  }

  showDatasets(names, chosen) {
    this.#dataset.hidden = names.length < 2;
    this.#dataset.replaceChildren(h("option", { value: "" }, "all datasets"), ...names.map((name) => h("option", { value: name, selected: name === chosen }, plain(name) || "(none)")));
  }

  showColumns(fields, chosen) {
    this.#columns.hidden = !fields.length;
    this.#columns.lastChild.replaceChildren(...fields.map((name) => {
      const box = h("input", { type: "checkbox", checked: chosen.has(name), on: { change: () => this.#columnChosen(name, box.checked) } });
      return h("label", {}, box, inline(name.slice(0, 80)));
    }));
  }

  showFound(text) {
    this.#found.textContent = text;
  }
}
