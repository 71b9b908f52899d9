// The page of a run: all runs as cards or a table, its charts, and the list of its episodes with filters.
import { h, oncePerFrame } from "./dom.js";
import { histogram, rewardBars, shares } from "./charts.js";
import { FilterBar } from "./filters.js";
import { number, percent } from "./format.js";
import { Grid } from "./grid.js";
import { markLegend } from "./marks.js";
import { FILTERS, fragment, listOf, routeOf } from "./route.js";
import { RowList } from "./rows.js";
import { runHead, runsView } from "./runs.js";
import { Scatter } from "./scatter.js";
import { roomForFields, Table } from "./table.js";
import { TaskRates } from "./task_rates.js";

const GRID_PAGE = 1000;
const LOW_FIRST = ["reward", "task", "repeat", "answer", "dataset", "prompt"];

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
  #cards = h("nav", { class: "runs", "aria-label": "Runs" });
  #head = h("header", { class: "run-head" });
  #histogram = h("section", { class: "panel", "aria-label": "Rewards" });
  #outcomes = h("div", { class: "outcomes" });
  #legend = h("div");
  #scatter;
  #rates;
  #empty = h("p", { class: "empty", hidden: true });
  #bar;

  constructor(source, go, open) {
    this.#source = source;
    this.#go = go;
    this.#table = new Table({
      open,
      link: (row) => fragment(routeOf(this.#route, row)),
      sort: (name) => {
        const first = LOW_FIRST.includes(name) ? undefined : 1; // a first click, a second the other way, a third undoes it
        const again = (this.#route.sort ?? "task") === name;
        const desc = again ? (first ? undefined : 1) : first;
        const undone = again && Boolean(this.#route.desc) !== Boolean(first);
        this.#filter(undone ? { sort: undefined, desc: undefined } : { sort: name, desc });
      },
    });
    const openTask = (task, repeat, n) => go({ ...listOf(this.#route), task, repeat, n });
    this.#grid = new Grid({ load: async (offset, limit) => (await source.stats(this.#route.run, { offset, limit })).grid, open: openTask });
    this.#scatter = new Scatter({ open: openTask });
    this.#rates = new TaskRates({ open: go });
    this.#bar = new FilterBar((changes) => this.#filter(changes), (name, chosen) => {
      this.#columns[chosen ? "add" : "delete"](name);
      this.#showTable(this.stats[this.#route.run]);
    });
    this.element = h("main", { class: "overview" }, this.#cards, this.#head,
      h("div", { class: "charts" }, this.#histogram,
        h("section", { class: "panel", "aria-label": "Tasks by repeats" }, h("div", { class: "panel-head" }, h("h2", {}, "Tasks by repeats"), this.#legend), this.#grid.element),
        h("section", { class: "panel", "aria-label": "Length and reward" }, h("h2", {}, "Length and reward"), this.#scatter.element)),
      this.#rates.element, this.#outcomes, this.#bar.element, h("div", { class: "table-frame" }, this.#table.element), this.#empty);
  }

  #filter(changes) {
    this.#go({ ...listOf(this.#route), ...changes }, { replace: true });
  }

  /** The field that `/` goes to. */
  get searchField() {
    return this.#bar.searchField;
  }

  /** The table, for keys. */
  get table() {
    return this.#table;
  }

  /** Shows what a route says. */
  async show(runs, route) {
    this.#runs = runs;
    this.#route = route;
    const { runs: layout, by, ...listed } = listOf(route);
    const key = JSON.stringify(listed);
    if (key === this.#key) {
      this.#drawCards();
      return this.#table.draw();
    }
    const sameRun = JSON.parse(this.#key || "{}").run === route.run;
    this.#key = key;
    const { run: _, ...query } = { sort: "task", ...listed };
    this.list?.close();
    const list = (this.list = new RowList(this.#source, route.run, query));
    list.onProgress = () => this.list === list && this.#drawFound();
    this.#bar.show(route);
    this.#drawCards();
    this.#table.selected = -1;
    if (!sameRun) this.#columns = null;
    try {
      if (!this.stats[route.run]) this.stats[route.run] = await this.#source.stats(route.run, { offset: 0, limit: GRID_PAGE });
      await list.need(0, 1);
      if (!sameRun) await this.#loadPoints();
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

  async #loadPoints() {
    const { run, dataset } = this.#route;
    this.#scatter.show(await this.#source.points(run, { dataset }), rangeOf(this.stats[run]));
  }

  // The other runs' cards fill one after the other, when this one's page is there.
  async #loadOthers() {
    const drawCards = oncePerFrame(() => {
      this.#drawCards();
      this.#drawRates();
    });
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

  /** The files have grown, or have been read further; whether the list shows it. */
  async refresh(runs, changed) {
    this.#runs = runs;
    const { list, stats } = this;
    const own = changed.includes(this.#route.run);
    const top = this.#bar.element.getBoundingClientRect().top;
    const fresh = await Promise.all(changed.map((run) => this.#source.stats(run, { offset: 0, limit: GRID_PAGE })));
    changed.forEach((run, index) => (stats[run] = fresh[index]));
    this.#drawCards();
    if (!own) return true;
    if (this.list !== list) return false;
    list.refresh();
    await list.need(Math.max(0, list.total - 1), list.total);
    if (this.list !== list) return false;
    this.#drawAll();
    await this.#grid.show(stats[this.#route.run].grid, rangeOf(stats[this.#route.run]), { again: true });
    await this.#loadPoints();
    const moved = this.#bar.element.getBoundingClientRect().top - top;
    if (top < 0 && moved) scrollBy(0, moved); // what is read stays where it is, though the charts above have grown
    return true;
  }

  /** Draws again, in another theme. */
  redraw() {
    if (!this.list) return;
    this.#drawCards();
    this.#drawAll();
    this.#grid.draw();
    this.#scatter.draw();
  }

  get #run() {
    return this.#runs.find((run) => run.run === this.#route.run);
  }

  #drawCards() {
    this.#cards.hidden = this.#runs.length < 2;
    if (this.#cards.hidden) return;
    const focused = this.#cards.contains(document.activeElement) ? document.activeElement.dataset.sort : null;
    this.#cards.replaceChildren(...runsView(this.#runs, this.stats, {
      layout: this.#route.runs, order: this.#route.by, current: this.#route.run,
      linkOf: (run) => fragment({ run: run.run, runs: this.#route.runs, by: this.#route.by }),
      open: (run) => this.#go({ run: run.run, runs: this.#route.runs, by: this.#route.by }),
      change: (changes) => this.#filter(changes),
    }));
    if (focused) this.#cards.querySelector(`[data-sort="${focused}"]`)?.focus();
  }

  #drawRates() {
    const group = this.#run?.facts?.group;
    const range = rangeOf(this.stats[this.#route.run]);
    this.#rates.show(this.#runs.filter((run) => run.facts?.group === group), this.stats, this.#route.run, range);
  }

  #drawAll() {
    const stats = this.stats[this.#route.run];
    this.#drawCards();
    this.#head.replaceChildren(...(this.#run ? runHead(this.#run) : []));
    this.#legend.replaceChildren(markLegend(rangeOf(stats), { masked: Boolean(stats.outcomes?.masked), between: !stats.is_binary }));
    this.#drawRates();
    this.#drawHistogram(stats);
    this.#bar.showDatasets(Object.keys(stats.datasets ?? {}), this.#route.dataset);
    this.#drawFound();
    const { fields } = this.list;
    const datasets = Object.keys(stats.datasets ?? {}).length > 1;
    this.#columns ??= new Set(fields.slice(0, roomForFields(innerWidth - 42, { datasets })));
    this.#bar.showColumns(fields, this.#columns);
    this.#showTable(stats);
  }

  #showTable(stats) {
    const datasets = Object.keys(stats.datasets ?? {}).length > 1;
    const chosen = this.list.fields.filter((name) => this.#columns.has(name));
    this.#table.show(this.list, { sort: this.#route.sort ?? "task", desc: this.#route.desc, fields: chosen, datasets, range: rangeOf(stats) });
  }

  #drawHistogram(stats) {
    const route = this.#route;
    const picked = route.reward_min !== undefined && route.reward_max !== undefined ? [Number(route.reward_min), Number(route.reward_max)] : null;
    const pick = (low, high) => this.#filter({ reward_min: low, reward_max: high });
    const edges = stats.histogram.edges;
    const some = stats.histogram.counts.some(Boolean);
    const mean = h("p", { class: "mean" }, h("b", {}, number(stats.mean)), typeof stats.standard_error === "number" && h("span", {}, ` \u00b1 ${number(stats.standard_error)}`), h("small", {}, ` mean reward, ${percent(stats.coverage)} scored`));
    const chart = stats.is_binary ? rewardBars(stats, { picked, pick }) : histogram(stats.histogram, { picked, pick });
    this.#histogram.replaceChildren(h("h2", {}, "Rewards"), mean, some ? chart : h("p", { class: "note" }, "no episode has a reward yet"),
      some && !stats.is_binary ? h("div", { class: "ends" }, h("span", {}, number(edges[0])), h("span", {}, number(edges[edges.length - 1]))) : "");
    const toggle = (name) => (value) => this.#filter({ [name]: value });
    const several = Object.keys(stats.outcomes ?? {}).length > 1 || route.outcome || route.failure_kind;
    this.#outcomes.hidden = !several;
    this.#outcomes.replaceChildren(...[shares("Outcome", stats.outcomes ?? {}, route.outcome, toggle("outcome"), { inPercent: true }), shares("Failure", stats.failure_kinds ?? {}, route.failure_kind, toggle("failure_kind"))].filter(Boolean));
  }

  #drawFound() {
    const all = this.#runs.find((run) => run.run === this.#route.run)?.episodes ?? 0;
    const { total, searched } = this.list;
    const filtered = FILTERS.some((name) => this.#route[name]);
    const found = filtered ? `${number(total)} of ${number(all)} episodes${searched < 1 ? `, ${percent(searched)} searched` : ""}` : `${number(total)} episodes`;
    this.#bar.showFound(found);
    this.#empty.hidden = total > 0;
    this.#empty.textContent = filtered ? "No episode matches these filters." : "No episode is in this file yet.";
  }
}
