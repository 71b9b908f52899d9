// The page of a run: cards of all runs, its histogram and grid, and the list of its episodes with filters.
import { button, h, oncePerFrame } from "./dom.js";
import { histogram, shares } from "./charts.js";
import { number, percent } from "./format.js";
import { Grid } from "./grid.js";
import { FILTERS, fragment, listOf, routeOf } from "./route.js";
import { RowList } from "./rows.js";
import { runCard } from "./runs.js";
import { roomForFields, Table } from "./table.js";
import { inline, plain } from "./text.js";

const GRID_PAGE = 1000;
const LOW_FIRST = ["reward", "task", "repeat", "answer", "dataset"];

/** The range of rewards that colours lie in: at least from 0 to 1, for what is scored so. */
export function rangeOf(stats) {
  const edges = stats?.histogram?.edges ?? [];
  if (edges.length < 2) return [0, 1];
  const [low, high] = [edges[0], edges[edges.length - 1]];
  return low >= 0 && high <= 1 ? [0, 1] : [low, high];
}

/** The list and its charts; `go` changes the route, `open` shows an episode. */
export class Overview {
  element;
  list = null;
  stats = [];
  #runs = [];
  #route = { run: 0 };
  #key = "";
  #columns = null;
  #source;
  #go;
  #table;
  #grid;
  #cards = h("nav", { class: "cards", "aria-label": "Runs" });
  #histogram = h("section", { class: "panel", "aria-label": "Rewards" });
  #outcomes = h("div", { class: "outcomes" });
  #gridTitle = h("h2", {}, "Tasks by repeats");
  #found = h("p", { class: "found", role: "status" });
  #empty = h("p", { class: "empty", hidden: true });
  #controls = {};
  #bar = h("form", { class: "filters", role: "search", on: { submit: (event) => event.preventDefault() } });

  constructor(source, go, open) {
    this.#source = source;
    this.#go = go;
    this.#table = new Table({
      open,
      link: (row) => fragment(routeOf(this.#route, row)),
      sort: (name) => {
        const first = LOW_FIRST.includes(name) ? undefined : 1; // a first click, a second the other way, a third undoes it
        const again = this.#route.sort === name;
        const desc = again ? (first ? undefined : 1) : first;
        const undone = again && Boolean(this.#route.desc) !== Boolean(first);
        this.#filter(undone ? { sort: undefined, desc: undefined } : { sort: name, desc });
      },
    });
    this.#grid = new Grid({
      load: async (offset, limit) => (await source.stats(this.#route.run, { offset, limit })).grid,
      open: (task, repeat, n) => go({ ...listOf(this.#route), task, repeat, n }),
    });
    this.#buildBar();
    this.element = h("main", { class: "overview" }, this.#cards,
      h("div", { class: "charts" }, this.#histogram, h("section", { class: "panel", "aria-label": "Tasks by repeats" }, this.#gridTitle, this.#grid.element)),
      this.#outcomes, this.#bar, h("div", { class: "table-frame" }, this.#table.element), this.#empty);
  }

  #filter(changes) {
    this.#go({ ...listOf(this.#route), ...changes }, { replace: true });
  }

  #buildBar() {
    let typing;
    const search = h("input", { type: "search", id: "search", placeholder: "Search all texts", "aria-label": "Search all texts", autocomplete: "off", spellcheck: "false" });
    const soon = () => {
      clearTimeout(typing);
      typing = setTimeout(() => this.#filter({ q: search.value || undefined }), 180);
    };
    search.addEventListener("input", soon);
    const dataset = h("select", { "aria-label": "Dataset", on: { change: () => this.#filter({ dataset: dataset.value || undefined }) } });
    const bound = (name, label) => h("input", { type: "number", step: "any", "aria-label": label, placeholder: label.split(" ")[1], on: { change: (event) => this.#filter({ [name]: event.target.value || undefined }) } });
    const low = bound("reward_min", "Reward from");
    const high = bound("reward_max", "Reward to");
    const clear = button("Clear", () => this.#filter(Object.fromEntries(FILTERS.map((name) => [name, undefined]))), { class: "quiet" });
    const columns = h("details", { class: "menu" }, h("summary", {}, "Columns"), h("div", { class: "menu-list" }));
    document.addEventListener("click", (event) => columns.contains(event.target) || (columns.open = false));
    this.#controls = { search, dataset, low, high, clear, columns };
    this.#bar.append(search, h("span", { class: "range" }, h("span", {}, "reward"), low, "\u2013", high), dataset, columns, clear, this.#found);
  }

  /** The field that `/` goes to. */
  get searchField() {
    return this.#controls.search;
  }

  /** The table, for keys. */
  get table() {
    return this.#table;
  }

  /** Shows what a route says. */
  async show(runs, route) {
    this.#runs = runs;
    this.#route = route;
    const key = JSON.stringify(listOf(route));
    if (key === this.#key) return this.#table.draw();
    const sameRun = JSON.parse(this.#key || "{}").run === route.run;
    this.#key = key;
    const { run: _, ...query } = listOf(route);
    this.list?.close();
    const list = (this.list = new RowList(this.#source, route.run, query));
    list.onProgress = () => this.list === list && this.#drawFound();
    this.#drawControls();
    this.#drawCards();
    this.#table.selected = -1;
    if (!sameRun) this.#columns = null;
    try {
      if (!this.stats[route.run]) this.stats[route.run] = await this.#source.stats(route.run, { offset: 0, limit: GRID_PAGE });
      await list.need(0, 1);
    } catch (error) {
      if (error.name === "AbortError" || this.list !== list) return;
      throw error;
    }
    if (this.list !== list) return;
    this.#drawAll();
    if (!sameRun) {
      await this.#grid.show(this.stats[route.run].grid, rangeOf(this.stats[route.run]));
      this.#loadOthers();
    }
  }

  // The other runs' cards fill one after the other, when this one's page is there.
  async #loadOthers() {
    const drawCards = oncePerFrame(() => this.#drawCards());
    for (const { run } of this.#runs) {
      if (this.stats[run]) continue;
      try {
        this.stats[run] = await this.#source.stats(run, { offset: 0, limit: GRID_PAGE });
      } catch {
        return;
      }
      drawCards();
    }
  }

  /** The files have grown, or have been read further. */
  async refresh(runs, changed) {
    this.#runs = runs;
    const { list, stats } = this;
    const own = changed.includes(this.#route.run);
    const top = this.#bar.getBoundingClientRect().top;
    const fresh = await Promise.all(changed.map((run) => this.#source.stats(run, { offset: 0, limit: GRID_PAGE })));
    changed.forEach((run, index) => (stats[run] = fresh[index]));
    this.#drawCards();
    if (!own || this.list !== list) return;
    list.refresh();
    await list.need(Math.max(0, list.total - 1), list.total);
    if (this.list !== list) return;
    this.#drawAll();
    await this.#grid.show(stats[this.#route.run].grid, rangeOf(stats[this.#route.run]), { again: true });
    const moved = this.#bar.getBoundingClientRect().top - top;
    if (top < 0 && moved) scrollBy(0, moved); // what is read stays where it is, though the charts above have grown
  }

  /** Draws again, in another theme. */
  redraw() {
    if (!this.list) return;
    this.#drawCards();
    this.#drawAll();
    this.#grid.draw();
  }

  #drawCards() {
    const cards = this.#runs.map((run) => runCard(run, this.stats[run.run], { current: run.run === this.#route.run, link: fragment({ run: run.run }) }));
    this.#cards.hidden = cards.length < 2;
    this.#cards.replaceChildren(...cards);
  }

  #drawControls() {
    const { search, low, high, clear } = this.#controls;
    const set = (field, value) => {
      if (document.activeElement !== field || !value) field.value = value ?? "";
    };
    set(search, this.#route.q);
    set(low, this.#route.reward_min);
    set(high, this.#route.reward_max);
    clear.hidden = !FILTERS.some((name) => this.#route[name]);
  }

  #drawAll() {
    const stats = this.stats[this.#route.run];
    this.#drawCards();
    this.#drawHistogram(stats);
    this.#drawDatasets(stats);
    this.#drawFound();
    const { fields } = this.list;
    const datasets = Object.keys(stats.datasets ?? {}).length > 1;
    this.#columns ??= new Set(fields.slice(0, roomForFields(innerWidth - 42, { datasets })));
    this.#drawColumns(fields);
    this.#showTable(stats);
  }

  #showTable(stats) {
    const datasets = Object.keys(stats.datasets ?? {}).length > 1;
    const chosen = this.list.fields.filter((name) => this.#columns.has(name));
    this.#table.show(this.list, { sort: this.#route.sort, desc: this.#route.desc, fields: chosen, datasets, range: rangeOf(stats) });
  }

  #drawHistogram(stats) {
    const route = this.#route;
    const picked = route.reward_min !== undefined && route.reward_max !== undefined ? [Number(route.reward_min), Number(route.reward_max)] : null;
    const pick = (low, high) => this.#filter({ reward_min: low, reward_max: high });
    const edges = stats.histogram.edges;
    const some = stats.histogram.counts.some(Boolean);
    const mean = h("p", { class: "mean" }, h("b", {}, number(stats.mean)), typeof stats.standard_error === "number" && h("span", {}, ` \u00b1 ${number(stats.standard_error)}`), h("small", {}, ` mean reward, ${percent(stats.coverage)} scored`));
    this.#histogram.replaceChildren(h("h2", {}, "Rewards"), mean, some ? histogram(stats.histogram, { picked, pick }) : h("p", { class: "note" }, "no episode has a reward yet"),
      some ? h("div", { class: "ends" }, h("span", {}, number(edges[0])), h("span", {}, number(edges[edges.length - 1]))) : "");
    const toggle = (name) => (value) => this.#filter({ [name]: value });
    this.#outcomes.replaceChildren(...[shares("Outcome", stats.outcomes ?? {}, route.outcome, toggle("outcome"), { inPercent: true }), shares("Failure", stats.failure_kinds ?? {}, route.failure_kind, toggle("failure_kind"))].filter(Boolean));
  }

  #drawDatasets(stats) {
    const { dataset } = this.#controls;
    const names = Object.keys(stats.datasets ?? {});
    dataset.hidden = names.length < 2;
    dataset.replaceChildren(h("option", { value: "" }, "all datasets"), ...names.map((name) => h("option", { value: name, selected: name === this.#route.dataset }, plain(name) || "(none)")));
  }

  #drawFound() {
    const all = this.#runs.find((run) => run.run === this.#route.run)?.episodes ?? 0;
    const { total, searched } = this.list;
    const filtered = FILTERS.some((name) => this.#route[name]);
    this.#found.textContent = filtered ? `${number(total)} of ${number(all)} episodes${searched < 1 ? `, ${percent(searched)} searched` : ""}` : `${number(total)} episodes`;
    this.#empty.hidden = total > 0;
    this.#empty.textContent = filtered ? "No episode matches these filters." : "No episode is in this file yet.";
  }

  #drawColumns(fields) {
    const { columns } = this.#controls;
    columns.hidden = !fields.length;
    columns.lastChild.replaceChildren(...fields.map((name) => {
      const box = h("input", { type: "checkbox", checked: this.#columns.has(name), on: { change: () => {
        this.#columns[box.checked ? "add" : "delete"](name);
        this.#showTable(this.stats[this.#route.run]);
      } } });
      return h("label", {}, box, inline(name.slice(0, 80)));
    }));
  }
}
