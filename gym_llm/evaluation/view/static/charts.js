// The histogram of rewards and the shares of outcomes: a click filters the list.
import { button, h, svg } from "./dom.js";
import { counted, number, percent, rewardColour } from "./format.js";
import { mark } from "./marks.js";
import { plain } from "./text.js";

/** A histogram as an SVG; `pick(low, high)` is called with a bar's rewards, or with nothing to undo it. */
export function histogram({ edges, counts }, { width = 340, height = 112, picked, pick } = {}) {
  const most = Math.max(1, ...counts);
  const step = width / Math.max(1, counts.length);
  const alone = (index) => !counts[index - 1] && !counts[index + 1];
  const labelPlace = (index) => {
    if (step > 26 || (index && index < counts.length - 1)) return { x: (index + 0.5) * step, "text-anchor": "middle" };
    return index ? { x: width - 1, "text-anchor": "end" } : { x: 1, "text-anchor": "start" };
  };
  const bars = counts.map((count, index) => {
    const last = index === counts.length - 1;
    const [low, next] = [edges[index], edges[index + 1]];
    const high = last ? next : Number((next - (next - low) * 1e-6).toPrecision(9)); // a bar has its lower edge only
    const tall = count ? Math.max(3, (count / most) * (height - 18)) : 0;
    const colour = rewardColour((low + next) / 2, edges[0], edges[edges.length - 1]);
    const on = picked && picked[0] === low && picked[1] === high;
    const label = `${counted(count, "episode")} with a reward ${low === next ? `of ${number(low)}` : `from ${number(low)} to ${number(next)}`}`;
    const choose = () => (on ? pick() : pick(low, high));
    const attributes = pick && count
      ? {
          class: `bar${picked && !on ? " faded" : ""}`, role: "button", tabindex: "0", "aria-label": label, "aria-pressed": on ? "true" : "false",
          on: { click: choose, keydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } } },
        }
      : { class: "bar" };
    return svg("g", attributes,
      svg("title", {}, label),
      svg("rect", { x: index * step, y: 0, width: step, height, class: "touch" }),
      svg("rect", { x: index * step + 1, y: height - tall, width: Math.max(1, step - 2), height: tall, rx: Math.min(3, step / 4), fill: colour }),
      count > 0 && (step > 26 || alone(index)) && svg("text", { ...labelPlace(index), y: height - tall - 5 }, number(count)));
  });
  return svg("svg", { class: "histogram", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Histogram of rewards" }, bars,
    svg("line", { x1: 0, y1: height, x2: width, y2: height, class: "axis" }));
}

/** Rewards of 0 and 1 as bars: how many episodes have each; `pick(low, high)` as in a histogram. */
export function rewardBars(stats, { picked, pick } = {}) {
  const ones = stats.histogram.counts[stats.histogram.counts.length - 1] ?? 0;
  const zeros = stats.histogram.counts.reduce((sum, count) => sum + count, 0) - ones;
  const masked = stats.outcomes.masked ?? 0;
  const most = Math.max(1, ones, zeros, masked);
  const bar = (reward, count) => {
    const on = picked && reward !== null && picked[0] === reward && picked[1] === reward;
    const label = `${counted(count, "episode")} ${reward === null ? "without a reward" : `with a reward of ${reward}`}`;
    const inside = [mark(reward, [0, 1]), h("span", { class: "value" }, reward === null ? "masked" : String(reward)),
      h("span", { class: "track" }, h("i", { class: reward === null ? "masked" : reward ? "one" : "zero", style: { width: `${(100 * count) / most}%` } })),
      h("b", {}, number(count)), h("small", {}, percent(count / (ones + zeros + masked)))];
    if (reward === null || !count) return h("div", { class: "reward-bar", title: label }, inside);
    return button(inside, () => (on ? pick() : pick(reward, reward)), { class: `reward-bar${picked && !on ? " faded" : ""}`, "aria-label": label, "aria-pressed": on ? "true" : "false" });
  };
  return h("div", { class: "reward-bars", role: "group", "aria-label": "Rewards" }, bar(1, ones), bar(0, zeros), masked > 0 && bar(null, masked));
}

/** A small picture of a run's rewards, without words, for its card: a bar of shares, or a histogram. */
export function sparkline(stats) {
  const { edges, counts } = stats.histogram;
  const masked = stats.outcomes?.masked ?? 0;
  if (stats.is_binary) {
    const ones = counts[counts.length - 1];
    const zeros = counts.reduce((sum, count) => sum + count, 0) - ones;
    const title = `${counted(ones, "episode")} at 1, ${number(zeros)} at 0${masked ? `, ${number(masked)} masked` : ""}`;
    return h("span", { class: "shares-bar", title, role: "img", "aria-label": title },
      [["one", ones], ["zero", zeros], ["masked", masked]].map(([name, count]) => count > 0 && h("i", { class: name, style: { "flex-grow": count } })));
  }
  const [width, height, most] = [120, 26, Math.max(1, ...counts)];
  const step = width / Math.max(1, counts.length);
  return svg("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, counts.map((count, index) => {
    const tall = count ? Math.max(2, (count / most) * height) : 0.75;
    const fill = count ? rewardColour((edges[index] + edges[index + 1]) / 2, edges[0], edges[edges.length - 1]) : "var(--line)";
    return svg("rect", { x: index * step + 0.5, y: height - tall, width: Math.max(1, step - 1), height: tall, rx: 1, fill });
  }));
}

const MOST = 12; // values that have a button

/** Buttons for the values of a field with how many episodes have each; `pick(value)` filters, or not any more. */
export function shares(title, counts, picked, pick, { inPercent = false } = {}) {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const named = Object.entries(counts).filter(([, count]) => count).sort(([, one], [, other]) => other - one);
  if (!named.length) return null;
  return h("div", { class: "shares", role: "group", "aria-label": title }, named.slice(0, MOST).map(([name, count]) => {
    const label = [h("bdi", {}, plain(name)), " ", h("b", {}, number(count)), inPercent && named.length > 1 && h("small", {}, ` ${percent(count / total)}`)].filter(Boolean);
    return button(label, () => pick(picked === name ? undefined : name), { class: `share ${["scored", "truncated", "masked"].includes(name) ? name : ""}`, "aria-pressed": picked === name ? "true" : "false" });
  }), named.length > MOST && h("span", { class: "note" }, `and ${named.length - MOST} others`));
}
