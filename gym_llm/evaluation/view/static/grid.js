// Tasks by repeats as coloured squares: a column a task, a row a repeat, in bands like lines of text. What failed is
// hatched, what has not been played is empty.
import { button, h, onNewWidth, penOf } from "./dom.js";
import { number } from "./format.js";
import { paintMark } from "./marks.js";
import { plain } from "./text.js";

const SIZES = [20, 16, 13, 10, 8]; // of a square: the largest with which all tasks fit, else the last
const GAP = 2;
const BAND_GAP = 20;
const PAGE = 1000; // tasks asked for at once: more than there is room for
const TALLEST = 180; // pixels of bands on a page

/** The grid of a run; `load(offset, limit)` gives a page, `open(task, repeat, n)` is called with a square. */
export class Grid {
  element;
  #canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Rewards by task and repeat. Arrow keys move, Enter opens." });
  #said = h("p", { class: "note", "aria-live": "polite" });
  #pager = h("div", { class: "pager" });
  #options;
  #grid = null;
  #range = [0, 1];
  #offset = 0;
  #cursor = null;
  #columns = 1;
  #width = 600;
  #cell = SIZES[0];

  constructor(options) {
    this.#options = options;
    this.element = h("div", { class: "grid" }, this.#canvas, h("div", { class: "below" }, this.#said, this.#pager));
    this.#canvas.addEventListener("mousemove", (event) => this.#point(this.#under(event)));
    this.#canvas.addEventListener("mouseleave", () => this.#point(null));
    this.#canvas.addEventListener("click", (event) => this.#open(this.#under(event)));
    this.#canvas.addEventListener("keydown", (event) => this.#key(event));
    onNewWidth(this.element, () => this.#width, (width) => {
      this.#width = width;
      this.draw();
    });
  }

  /** How many tasks a page has room for. */
  get room() {
    let room = 1;
    for (this.#cell of SIZES) {
      this.#columns = Math.max(1, Math.floor((this.#width + GAP) / (this.#cell + GAP)));
      room = this.#columns * Math.max(1, Math.floor(TALLEST / this.#band));
      if (room >= this.#total) break;
    }
    return room;
  }

  get #repeats() {
    return Math.max(1, this.#grid.repeats ?? 1);
  }

  // How tall a band is.
  get #band() {
    return this.#repeats * (this.#cell + GAP) + BAND_GAP;
  }

  // What is at a place: a reward, null for an episode that failed, undefined where there is none.
  #reward([index, repeat]) {
    const reward = this.#grid.rewards[index]?.[repeat];
    return typeof reward === "number" || (this.#grid.cells?.[index]?.[repeat] ?? null) !== null ? reward : undefined;
  }

  /** Shows a run's page, from the beginning or where it was. */
  async show(grid, range, { again = false } = {}) {
    if (!again) [this.#offset, this.#cursor] = [0, null];
    this.#range = range;
    this.#grid = this.#offset ? await this.#options.load(this.#offset, PAGE) : grid;
    this.draw();
  }

  async #turn(offset) {
    this.#offset = Math.max(0, offset);
    this.#cursor = null;
    this.#grid = await this.#options.load(this.#offset, PAGE);
    this.draw();
  }

  get #total() {
    return this.#grid.total ?? this.#grid.tasks.length;
  }

  draw() {
    if (!this.#grid) return;
    const room = this.room;
    const shown = Math.min(room, this.#grid.tasks.length);
    const [repeats, band] = [this.#repeats, this.#band];
    const bands = Math.max(1, Math.ceil(shown / this.#columns));
    const [width, height] = [this.#width, bands * band - 6];
    const pen = penOf(this.#canvas, width, height);
    const style = getComputedStyle(document.documentElement);
    const [ink, line] = [style.getPropertyValue("--muted").trim(), style.getPropertyValue("--line").trim()];
    pen.font = "10.5px ui-sans-serif, system-ui, sans-serif";
    for (let index = 0; index < shown; index += 1) {
      const x = (index % this.#columns) * (this.#cell + GAP);
      const y = Math.floor(index / this.#columns) * band;
      if (index % this.#columns % 10 === 0) {
        pen.fillStyle = ink;
        pen.fillText(String(this.#grid.tasks[index]), x, y + 10);
      }
      for (let repeat = 0; repeat < repeats; repeat += 1) {
        paintMark(pen, x, y + 14 + repeat * (this.#cell + GAP), this.#cell, this.#reward([index, repeat]), this.#range, line);
      }
    }
    if (this.#cursor) {
      const [x, y] = this.#placeOf(this.#cursor);
      pen.strokeStyle = style.getPropertyValue("--ink").trim();
      pen.lineWidth = 1.5;
      pen.strokeRect(x - 0.75, y - 0.75, this.#cell + 1.5, this.#cell + 1.5);
    }
    this.#drawPager(shown);
    this.#say();
  }

  #placeOf([index, repeat]) {
    const wide = this.#cell + GAP;
    return [(index % this.#columns) * wide, Math.floor(index / this.#columns) * this.#band + 14 + repeat * wide];
  }

  #under(event) {
    if (!this.#grid) return null;
    const box = this.#canvas.getBoundingClientRect();
    const [wide, band, repeats] = [this.#cell + GAP, this.#band, this.#repeats];
    const column = Math.floor((event.clientX - box.left) / wide);
    const line = Math.floor((event.clientY - box.top) / band);
    const repeat = Math.floor((event.clientY - box.top - line * band - 14) / wide);
    const index = line * this.#columns + column;
    const inside = column >= 0 && column < this.#columns && repeat >= 0 && repeat < repeats;
    return inside && index < Math.min(this.room, this.#grid.tasks.length) ? [index, repeat] : null;
  }

  #point(cursor) {
    if (String(cursor) === String(this.#cursor)) return;
    this.#cursor = cursor;
    this.#canvas.style.cursor = cursor ? "pointer" : "";
    this.draw();
  }

  #say() {
    if (!this.#cursor) {
      this.#said.textContent = "a column a task, a row a repeat";
      return;
    }
    const [index, repeat] = this.#cursor;
    const reward = this.#reward(this.#cursor);
    const what = typeof reward === "number" ? `reward ${number(reward)}` : reward === null ? "masked, no reward" : "not there";
    const dataset = new Set(this.#grid.datasets).size > 1 ? `${plain(this.#grid.datasets[index])}, ` : "";
    this.#said.textContent = `${dataset}task ${this.#grid.tasks[index]}, repeat ${repeat}: ${what}`;
  }

  #open(cursor) {
    if (!cursor) return;
    const [index, repeat] = cursor;
    if (this.#reward(cursor) !== undefined) this.#options.open(this.#grid.tasks[index], repeat, this.#grid.cells?.[index]?.[repeat] ?? null);
  }

  #key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter") this.#open(this.#cursor);
    if (!step || !this.#grid?.tasks.length) return;
    event.preventDefault();
    const repeats = this.#repeats;
    const shown = Math.min(this.room, this.#grid.tasks.length);
    let [index, repeat] = this.#cursor ? [this.#cursor[0] + step[0], this.#cursor[1] + step[1]] : [0, 0];
    if (repeat >= repeats) [index, repeat] = [index + this.#columns, 0];
    if (repeat < 0) [index, repeat] = [index - this.#columns, repeats - 1];
    if (index >= 0 && index < shown) this.#point([index, repeat]);
  }

  #drawPager(shown) {
    const room = this.room;
    if (this.#total <= room && !this.#offset) return this.#pager.replaceChildren();
    const last = this.#offset + shown;
    this.#pager.replaceChildren(
      button("\u2039", () => this.#turn(this.#offset - room), { class: "quiet", "aria-label": "Earlier tasks", disabled: this.#offset === 0 }),
      h("span", {}, `${number(this.#offset + 1)}\u2013${number(last)} of ${number(this.#total)} tasks`),
      button("\u203a", () => this.#turn(last), { class: "quiet", "aria-label": "Later tasks", disabled: last >= this.#total }),
    );
  }
}
