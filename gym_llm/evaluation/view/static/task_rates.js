// Each task's mean reward in the runs that played the same tasks: a row a run, a column a task, so that one sees which
// tasks one model solves and another does not.
import { h, oncePerFrame, penOf } from "./dom.js";
import { day, number } from "./format.js";
import { paintMark } from "./marks.js";
import { modelOf } from "./runs.js";
import { inline, plain } from "./text.js";

const SIZES = [18, 14, 11, 8, 6];
const GAP = 2;
const MOST_RUNS = 12;
const TOP = 16; // pixels for the numbers of tasks

function means(grid) {
  const byTask = new Map();
  grid.tasks.forEach((task, index) => {
    const scored = grid.rewards[index].filter((reward) => typeof reward === "number");
    const repeat = grid.cells[index].findIndex((cell) => cell !== null);
    const mean = scored.length ? scored.reduce((sum, each) => sum + each, 0) / scored.length : null;
    if (repeat >= 0) byTask.set(`${grid.datasets[index]}\u0000${task}`, { mean, first: { task, repeat, n: grid.cells[index][repeat] } });
  });
  return byTask;
}

/** The chart; `open(route)` is called with a square. */
export class TaskRates {
  element;
  #canvas = h("canvas", { role: "img", "aria-label": "Mean reward of each task in each run" });
  #names = h("ol", { class: "rate-names" });
  #said = h("p", { class: "note", "aria-live": "polite" });
  #rows = [];
  #tasks = [];
  #range = [0, 1];
  #over = null;
  #width = 0;
  #cell = SIZES[0];
  #holder;

  constructor({ open }) {
    this.#holder = h("div", { class: "rate-canvas" }, this.#canvas);
    this.element = h("section", { class: "panel rates", "aria-label": "Tasks in all runs", hidden: true }, h("h2", {}, "Each task in all runs"), h("div", { class: "rate-rows" }, this.#names, this.#holder), this.#said);
    this.#canvas.addEventListener("mousemove", (event) => this.#point(this.#under(event)));
    this.#canvas.addEventListener("mouseleave", () => this.#point(null));
    this.#canvas.addEventListener("click", (event) => {
      const at = this.#under(event);
      const found = at && this.#rows[at.row].means.get(this.#tasks[at.column]);
      if (found) open({ run: this.#rows[at.row].run.run, ...found.first });
    });
    new ResizeObserver(oncePerFrame(() => {
      if (this.#holder.clientWidth !== this.#width) this.draw();
    })).observe(this.#holder);
  }

  /** Shows the runs of a group that played a task of the current one; with fewer than two there is nothing to compare. */
  show(runs, stats, current, range) {
    const known = runs.filter((run) => stats[run.run]?.grid?.tasks.length).map((run) => ({ run, means: means(stats[run.run].grid) }));
    const own = known.find(({ run }) => run.run === current)?.means ?? new Map();
    this.#rows = known.filter((row) => [...row.means.keys()].some((key) => own.has(key))).slice(0, MOST_RUNS);
    this.element.hidden = this.#rows.length < 2;
    if (this.element.hidden) return;
    this.#range = range;
    const all = [...new Set(this.#rows.flatMap((row) => [...row.means.keys()]))];
    const place = (key) => key.split("\u0000");
    this.#tasks = all.sort((one, other) => place(one)[0].localeCompare(place(other)[0]) || Number(place(one)[1]) - Number(place(other)[1]));
    this.draw();
  }

  #partsOf(column) {
    const [dataset, task] = this.#tasks[column].split("\u0000");
    return [Number(task), dataset];
  }

  draw() {
    const width = (this.#width = this.#holder.clientWidth);
    if (!width || !this.#rows.length) return;
    this.#cell = SIZES.find((size) => this.#tasks.length * (size + GAP) <= width) ?? SIZES[SIZES.length - 1];
    const step = this.#cell + GAP;
    const tall = Math.max(step, 22);
    const room = Math.floor(width / step);
    const shown = this.#tasks.slice(0, room);
    const height = TOP + this.#rows.length * tall;
    const pen = penOf(this.#canvas, width, height);
    const style = getComputedStyle(document.documentElement);
    const [muted, line, ink] = ["--muted", "--line", "--ink"].map((name) => style.getPropertyValue(name).trim());
    pen.font = "10.5px ui-sans-serif, system-ui, sans-serif";
    pen.fillStyle = muted;
    const every = Math.max(1, Math.ceil(30 / step / 5) * 5);
    shown.forEach((_, column) => column % every === 0 && pen.fillText(String(this.#partsOf(column)[0]), column * step, 10));
    this.#rows.forEach((row, index) => shown.forEach((key, column) => {
      paintMark(pen, column * step, TOP + index * tall + (tall - this.#cell) / 2, this.#cell, row.means.get(key)?.mean, this.#range, line);
    }));
    if (this.#over) {
      pen.strokeStyle = ink;
      pen.lineWidth = 1.5;
      pen.strokeRect(this.#over.column * step - 1, TOP + this.#over.row * tall + (tall - this.#cell) / 2 - 1, this.#cell + 2, this.#cell + 2);
    }
    this.#names.replaceChildren(...this.#rows.map(({ run }) => h("li", { title: plain(run.name) }, inline(modelOf(run)), h("small", {}, day(run.facts?.date, { time: false })))));
    this.#say(shown.length);
  }

  #under(event) {
    const box = this.#canvas.getBoundingClientRect();
    const step = this.#cell + GAP;
    const column = Math.floor((event.clientX - box.left) / step);
    const row = Math.floor((event.clientY - box.top - TOP) / Math.max(step, 22));
    return row >= 0 && row < this.#rows.length && column >= 0 && column < Math.min(this.#tasks.length, Math.floor(this.#width / step)) ? { row, column } : null;
  }

  #point(over) {
    if (JSON.stringify(over) === JSON.stringify(this.#over)) return;
    this.#over = over;
    this.#canvas.style.cursor = over ? "pointer" : "";
    this.draw();
  }

  #say(shown) {
    if (!this.#over) {
      const cut = shown < this.#tasks.length ? ` The first ${number(shown)} of ${number(this.#tasks.length)} tasks.` : "";
      this.#said.textContent = `a row a run, a column a task, filled to its mean reward; a square opens its episodes.${cut}`;
      return;
    }
    const [task, dataset] = this.#partsOf(this.#over.column);
    const mean = this.#rows[this.#over.row].means.get(this.#tasks[this.#over.column])?.mean;
    const what = mean === undefined ? "not played" : mean === null ? "no reward" : `mean reward ${number(mean)}`;
    this.#said.textContent = `${plain(modelOf(this.#rows[this.#over.row].run))}: ${dataset ? `${plain(dataset)}, ` : ""}task ${task}, ${what}`;
  }
}
