// Length against reward: a dot an episode. Rewards of 0 and 1 are two bands, in which dots are spread so that each is
// seen; the mean length of each band is a line.
import { h, onNewWidth, penOf } from "./dom.js";
import { counted, number, rewardColour } from "./format.js";

const HEIGHT = 148;
const LEFT = 30; // pixels for the labels of rewards
const BELOW = 18; // and for those of lengths
const NEAR = 9; // pixels around a dot that belong to it

// A fixed spread for dots of one reward: the same each time, so that nothing jumps.
const spread = (n) => ((Math.imul(n + 1, 2654435761) >>> 8) % 1000) / 1000 - 0.5;

/** The chart; `open(task, repeat, n)` is called with a dot. */
export class Scatter {
  element;
  #canvas = h("canvas", { role: "img", "aria-label": "Length of an episode against its reward" });
  #said = h("p", { class: "note", "aria-live": "polite" });
  #points = { tokens: [], reward: [], n: [] };
  #range = [0, 1];
  #width = 300;
  #over = -1;
  #places = [];

  constructor({ open }) {
    this.element = h("div", { class: "scatter" }, this.#canvas, this.#said);
    const at = (event) => this.#nearest(event);
    this.#canvas.addEventListener("mousemove", (event) => this.#point(at(event)));
    this.#canvas.addEventListener("mouseleave", () => this.#point(-1));
    this.#canvas.addEventListener("click", (event) => {
      const index = at(event);
      if (index >= 0) open(this.#points.task[index], this.#points.repeat[index], this.#points.n[index]);
    });
    onNewWidth(this.element, () => this.#width, (width) => {
      this.#width = width;
      this.draw();
    });
  }

  show(points, range) {
    this.#points = points;
    this.#range = range;
    this.#over = -1;
    this.draw();
  }

  draw() {
    const { tokens, reward } = this.#points;
    const width = this.#width;
    const pen = penOf(this.#canvas, width, HEIGHT);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const [low, high] = this.#range;
    const longest = tokens.reduce((most, each) => Math.max(most, each), 1);
    const shortest = tokens.reduce((least, each) => Math.min(least, each), longest);
    const binary = reward.length > 0 && reward.every((each) => each === low || each === high);
    const inner = HEIGHT - BELOW;
    const pad = binary ? inner / 4 : 8;
    const x = (value) => LEFT + 6 + (longest > shortest ? (value - shortest) / (longest - shortest) : 0.5) * (width - LEFT - 16);
    const band = (value) => inner - pad - ((value - low) / (high - low || 1)) * (inner - 2 * pad);
    const y = (value, n) => band(value) + (binary ? spread(n) * pad * 1.3 : 0);
    pen.font = "11px ui-sans-serif, system-ui, sans-serif";
    pen.fillStyle = colour("--muted");
    pen.strokeStyle = colour("--line");
    for (const value of [low, high]) {
      pen.textAlign = "right";
      pen.fillText(number(value), LEFT - 6, band(value) + 4);
      pen.beginPath();
      pen.moveTo(LEFT, band(value));
      pen.lineTo(width, band(value));
      pen.stroke();
    }
    pen.textAlign = "left";
    if (longest > shortest) pen.fillText(number(shortest), LEFT + 4, HEIGHT - 3);
    pen.textAlign = "right";
    pen.fillText(counted(longest, "token"), width - 2, HEIGHT - 3);
    this.#places = tokens.map((value, index) => [x(value), y(reward[index], this.#points.n[index])]);
    pen.globalAlpha = tokens.length > 400 ? 0.45 : 0.75;
    this.#places.forEach(([left, top], index) => this.#dot(pen, left, top, reward[index], 3));
    pen.globalAlpha = 1;
    if (binary) this.#means(pen, x, band, colour("--ink"), pad * 0.8);
    if (this.#over >= 0) {
      const [left, top] = this.#places[this.#over];
      this.#dot(pen, left, top, reward[this.#over], 5);
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.arc(left, top, 7, 0, 7);
      pen.stroke();
    }
    this.#say();
  }

  // A full dot for the highest reward, a ring for the lowest: the shape says what the colour says.
  #dot(pen, left, top, reward, size) {
    const [low, high] = this.#range;
    pen.fillStyle = pen.strokeStyle = rewardColour(reward, low, high);
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.arc(left, top, reward <= low ? size - 0.5 : size, 0, 7);
    if (reward <= low) pen.stroke();
    else pen.fill();
  }

  #means(pen, x, band, ink, tall) {
    for (const value of this.#range) {
      const own = this.#points.tokens.filter((_, index) => this.#points.reward[index] === value);
      if (own.length < 2) continue;
      const left = x(own.reduce((sum, each) => sum + each, 0) / own.length);
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.moveTo(left, band(value) - tall);
      pen.lineTo(left, band(value) + tall);
      pen.stroke();
    }
  }

  #nearest(event) {
    const box = this.#canvas.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    let [best, distance] = [-1, NEAR * NEAR];
    this.#places.forEach(([x, y], index) => {
      const far = (x - left) ** 2 + (y - top) ** 2;
      if (far < distance) [best, distance] = [index, far];
    });
    return best;
  }

  #point(index) {
    if (index === this.#over) return;
    this.#over = index;
    this.#canvas.style.cursor = index >= 0 ? "pointer" : "";
    this.draw();
  }

  #say() {
    const { tokens, reward, task, repeat, total } = this.#points;
    if (this.#over >= 0) this.#said.textContent = `task ${task[this.#over]}, repeat ${repeat[this.#over]}: ${counted(tokens[this.#over], "token")}, reward ${number(reward[this.#over])}`;
    else if (!tokens.length) this.#said.textContent = "no episode has a reward and a number of tokens";
    else this.#said.textContent = total > tokens.length ? `${number(tokens.length)} of ${number(total)} episodes; a dot opens one` : "a dot an episode; a line: the mean of its band";
  }
}
