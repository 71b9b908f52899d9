// The runs side by side: a card for each file, with what its rewards come to.
import { h } from "./dom.js";
import { sparkline } from "./charts.js";
import { bytes, counted, number, percent } from "./format.js";
import { inline } from "./text.js";

/** Whether a run is still being read, or written. */
export function runState(run) {
  if (run.indexed < 1) return h("span", { class: "state" }, `reading, ${percent(run.indexed)}`);
  return run.growing ? h("span", { class: "state growing" }, "growing") : null;
}

/** The card of a run; `stats` may come later. */
export function runCard(run, stats, { current, link }) {
  const error = typeof stats?.standard_error === "number" ? h("small", {}, ` \u00b1 ${number(stats.standard_error)}`) : null;
  return h("a", { class: "card", href: link, "aria-current": current ? "true" : null },
    h("span", { class: "card-name" }, inline(run.name), runState(run)),
    h("span", { class: "card-mean" }, h("b", {}, stats ? number(stats.mean) : "\u2026"), error),
    stats && h("span", { class: "card-facts" }, `${percent(stats.coverage)} scored`),
    h("span", { class: "card-facts" }, `${counted(run.episodes, "episode")}, ${bytes(run.bytes ?? 0)}`),
    stats?.histogram && sparkline(stats.histogram));
}
