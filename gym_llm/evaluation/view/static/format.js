// Numbers as people read them, and the colour of a reward.

const WHOLE = new Intl.NumberFormat("en");

/** A count, or a measured number with up to four digits after the point. */
export function number(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "\u2013";
  if (Number.isInteger(value)) return WHOLE.format(value);
  const size = Math.abs(value);
  return size >= 1e6 || size < 1e-4 ? value.toExponential(2) : String(Number(value.toFixed(size >= 100 ? 1 : 4)));
}

export function percent(share) {
  if (typeof share !== "number") return "\u2013";
  const shown = 100 * share;
  return `${shown === 100 || shown === 0 ? shown : Math.min(99.9, Math.max(0.1, shown)).toFixed(1)}%`;
}

export function seconds(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "\u2013";
  if (value < 0.001) return `${Math.round(value * 1e6)} \u00b5s`;
  if (value < 1) return `${Number((value * 1e3).toPrecision(2))} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${unit ? value.toFixed(1) : value} ${units[unit]}`;
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/** A date from seconds since 1970, in the reader's time zone. */
export function day(value, { time = true } = {}) {
  if (typeof value !== "number" || !(Math.abs(value) < 8e12)) return "\u2013";
  const date = new Date(value * 1000);
  return time ? `${DAY.format(date)}, ${TIME.format(date)}` : DAY.format(date);
}

/** "1 turn", "2 turns". */
export function counted(count, word) {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}

let stops = null;
let hatched = "#888";

function readStops() {
  const style = getComputedStyle(document.documentElement);
  const rgb = (name) => style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/gi).map((pair) => parseInt(pair, 16));
  stops = [rgb("--low"), rgb("--middle"), rgb("--high")];
  hatched = style.getPropertyValue("--muted").trim();
}

/** Forgets the colours after the theme has changed. */
export function forgetColours() {
  stops = null;
}

/** The colour of a reward between the lowest and the highest of its run. */
export function rewardColour(reward, low, high) {
  if (!stops) readStops();
  const share = high > low ? Math.min(1, Math.max(0, (reward - low) / (high - low))) : reward > 0 ? 1 : 0;
  const [from, to, part] = share < 0.5 ? [stops[0], stops[1], share * 2] : [stops[1], stops[2], share * 2 - 1];
  return `rgb(${from.map((value, index) => Math.round(value + (to[index] - value) * part)).join(" ")})`;
}

/** The colour of the hatching of episodes without a reward. */
export function hatchColour() {
  if (!stops) readStops();
  return hatched;
}
