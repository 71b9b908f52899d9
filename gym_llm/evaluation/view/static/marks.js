// The mark of a reward: a colour and a shape that says the same. The highest reward is a full square with a tick, the
// lowest an empty one with a cross, one between is filled up to its share, and an episode without a reward is hatched.
import { h, svg } from "./dom.js";
import { hatchColour, rewardColour } from "./format.js";

const TICKED = 10; // pixels from which on there is room for a tick or a cross

function shareOf(reward, low, high) {
  return high > low ? Math.min(1, Math.max(0, (reward - low) / (high - low))) : reward > 0 ? 1 : 0;
}

/** A mark as an SVG; `reward` is a number, or nothing for an episode without one. */
export function mark(reward, [low, high], { size = 13 } = {}) {
  const box = { class: "mark", viewBox: "0 0 16 16", width: size, height: size, "aria-hidden": "true" };
  const square = (attributes) => svg("rect", { x: 1, y: 1, width: 14, height: 14, rx: 3.5, ...attributes });
  if (typeof reward !== "number") {
    return svg("svg", { ...box, class: "mark masked" }, square({ class: "outline", "stroke-dasharray": "2.5 2" }), svg("path", { d: "M4 12 12 4", class: "stroke" }));
  }
  const [share, colour] = [shareOf(reward, low, high), rewardColour(reward, low, high)];
  if (share >= 1) return svg("svg", box, square({ fill: colour }), svg("path", { d: "M4.3 8.4 7 11 11.8 5.4", class: "cut" }));
  const outline = square({ fill: "none", stroke: colour, "stroke-width": 2 });
  if (share <= 0) return svg("svg", box, outline, svg("path", { d: "M5.2 5.2 10.8 10.8M10.8 5.2 5.2 10.8", stroke: colour, "stroke-width": 2, "stroke-linecap": "round" }));
  const tall = 12 * share;
  return svg("svg", box, outline, svg("rect", { x: 2, y: 14 - tall, width: 12, height: tall, fill: colour }));
}

/** The mark of a row of the list. */
export function rowMark(row, range, options) {
  return mark(row.outcome === "masked" || row.outcome === "unreadable" ? null : row.reward, range, options);
}

/** Draws a mark on a canvas; `line` is the colour of an empty place, undefined rewards are empty places. */
export function paintMark(pen, x, y, size, reward, [low, high], line) {
  pen.save();
  pen.translate(x, y);
  pen.beginPath();
  pen.roundRect(0.5, 0.5, size - 1, size - 1, Math.min(3, size / 4));
  pen.lineWidth = 1;
  if (reward === undefined) {
    pen.strokeStyle = line;
    pen.stroke();
    return pen.restore();
  }
  if (reward === null) {
    pen.strokeStyle = hatchColour();
    pen.stroke();
    pen.clip();
    pen.beginPath();
    for (let at = -size; at < size; at += 4) {
      pen.moveTo(at, size);
      pen.lineTo(at + size, 0);
    }
    pen.stroke();
    return pen.restore();
  }
  const share = shareOf(reward, low, high);
  pen.fillStyle = pen.strokeStyle = rewardColour(reward, low, high);
  if (share >= 1) pen.fill();
  else {
    pen.lineWidth = size >= TICKED ? 1.5 : 1;
    pen.stroke();
    pen.save();
    pen.clip();
    pen.globalAlpha = 0.16;
    pen.fill();
    pen.globalAlpha = 1;
    pen.fillRect(0, size * (1 - share), size, size * share);
    pen.restore();
  }
  if (size >= TICKED && (share >= 1 || share <= 0)) {
    const at = (place) => (place / 16) * size;
    pen.beginPath();
    pen.lineCap = pen.lineJoin = "round";
    pen.lineWidth = Math.max(1.2, size / 10);
    if (share >= 1) {
      pen.strokeStyle = "rgb(255 255 255 / 92%)";
      pen.moveTo(at(4.6), at(8.3));
      pen.lineTo(at(7), at(10.6));
      pen.lineTo(at(11.4), at(5.7));
    } else {
      pen.moveTo(at(5.6), at(5.6));
      pen.lineTo(at(10.4), at(10.4));
      pen.moveTo(at(10.4), at(5.6));
      pen.lineTo(at(5.6), at(10.4));
    }
    pen.stroke();
  }
  pen.restore();
}

/** What the marks mean, in a line. */
export function markLegend(range, { masked = true, between = true } = {}) {
  const [low, high] = range;
  const one = (reward, label) => h("span", {}, mark(reward, range, { size: 12 }), label);
  return h("p", { class: "mark-legend" }, one(high, String(Number(high.toPrecision(3)))), between && one((low + high) / 2, "between"), one(low, String(Number(low.toPrecision(3)))), masked && one(null, "masked"));
}
