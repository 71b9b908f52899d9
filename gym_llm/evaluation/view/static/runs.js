// The runs side by side: a card for each in groups of the same tasks, or a table that sorts by any column.
import { button, h } from "./dom.js";
import { sparkline } from "./charts.js";
import { bytes, counted, day, number, percent } from "./format.js";
import { inline, plain } from "./text.js";

const MANY = 8; // runs from which on the table comes first
const CHIPS = 5; // settings shown on a card

/** Whether a run is still being read, or written. */
export function runState(run) {
  if (run.indexed < 1) return h("span", { class: "state" }, `reading, ${percent(run.indexed)}`);
  return run.growing ? h("span", { class: "state growing" }, "growing") : null;
}

/** An environment's name without what all have: `Weather` of `gym_llm/Weather-v0`. */
export function shortName(id) {
  return String(id).replace(/^gym_llm\//, "").replace(/-v0$/, "");
}

/** What a run played: its datasets, or its environments. */
export function playedBy(run) {
  const { datasets = [], environments = [] } = run.facts ?? {};
  const names = datasets.length ? datasets : environments.map(shortName);
  const shown = names.slice(0, 3).join(", ") + (names.length > 3 ? `, and ${names.length - 3} more` : "");
  const tasks = run.facts?.tasks ?? "";
  return tasks.startsWith("benchmark:") && names.length < 2 ? tasks.slice("benchmark:".length) : shown || run.name;
}

/** Which model played it; an agent is named with it. */
export function modelOf(run) {
  const { model, engine } = run.facts ?? {};
  return model || engine || (run.episodes ? "unknown model" : "\u2026");
}

/** A run's settings as chips. */
export function chips(run, most = 40) {
  const settings = run.facts?.settings ?? [];
  return settings.slice(0, most).map(([name, value]) => h("span", { class: "chip" }, h("bdi", {}, plain(name).replaceAll("_", " ")), " ", h("b", {}, inline(value))));
}

/** The run's figure: the benchmark's own, or the mean reward with its standard error. */
export function figure(run, stats) {
  const own = run.facts?.headline;
  if (own) return { value: own.value, about: own.low === undefined ? "" : ` [${number(own.low)}, ${number(own.high)}]`, label: own.rule || "score", title: own.title };
  const error = typeof stats?.standard_error === "number" ? ` \u00b1 ${number(stats.standard_error)}` : "";
  return { value: stats?.mean, about: error, label: "mean reward" };
}

function card(run, stats, { current, link }) {
  const { value, about, label, title } = figure(run, stats);
  const passes = Object.entries(run.facts?.pass_at ?? {});
  const best = passes.length > 1 ? passes[passes.length - 1] : null;
  const engine = run.facts?.engine;
  return h("a", { class: "card", href: link, "aria-current": current ? "true" : null },
    h("span", { class: "card-name" }, inline(modelOf(run)), runState(run)),
    engine && engine !== modelOf(run) && h("span", { class: "card-facts card-engine" }, "engine ", inline(engine)),
    h("span", { class: "card-mean" }, h("b", {}, stats ? number(value) : "\u2026"), h("small", {}, about), h("small", { class: "label", title }, label)),
    stats?.histogram && sparkline(stats),
    h("span", { class: "card-facts" }, counted(run.episodes, "episode"), stats && stats.coverage < 1 && `, ${percent(stats.coverage)} scored`, best && `, pass@${plain(best[0])} ${number(best[1])}`),
    h("span", { class: "card-chips" }, chips(run, CHIPS)),
    h("span", { class: "card-foot" }, h("time", {}, day(run.facts?.date)), inline(run.key ?? run.name)));
}

const COLUMNS = [
  { name: "task", label: "Task", of: playedBy, cell: (run) => h("b", {}, inline(playedBy(run))) },
  { name: "model", label: "Model", of: modelOf, cell: (run) => inline(modelOf(run)) },
  { name: "score", label: "Score", right: true, of: (run, stats) => figure(run, stats).value, cell: (run, stats) => [h("b", {}, number(figure(run, stats).value)), h("small", {}, figure(run, stats).about)] },
  { name: "rewards", label: "Rewards", cell: (run, stats) => stats?.histogram && sparkline(stats) },
  { name: "episodes", label: "Episodes", right: true, of: (run) => run.episodes, cell: (run) => number(run.episodes) },
  { name: "date", label: "Date", of: (run) => run.facts?.date ?? 0, cell: (run) => [h("time", {}, day(run.facts?.date)), " ", runState(run)] },
  { name: "settings", label: "Settings", cell: (run) => chips(run, CHIPS) },
  { name: "file", label: "File", of: (run) => run.key ?? run.name, cell: (run) => [inline(run.key ?? run.name), " ", h("small", {}, bytes(run.bytes ?? 0))] },
];

function table(runs, stats, { order, current, linkOf, open, sort }) {
  const [name, down] = [order.replace(/^-/, ""), order.startsWith("-")];
  const column = COLUMNS.find((each) => each.name === name && each.of) ?? COLUMNS.find((each) => each.name === "date");
  const value = (run) => column.of(run, stats[run.run]) ?? null;
  const compare = (one, other) => {
    const [first, second] = [value(one), value(other)];
    if (first === null || second === null) return (first === null) - (second === null);
    return (down ? -1 : 1) * (typeof first === "number" ? first - second : String(first).localeCompare(String(second)));
  };
  const heads = COLUMNS.map((each) => h("th", { scope: "col", class: each.right ? "right" : null, "aria-sort": each === column ? (down ? "descending" : "ascending") : null },
    each.of ? button(each.label, () => sort(each.name === name && !down ? `-${each.name}` : each.name), { "data-sort": each.name }) : each.label));
  const rows = [...runs].sort(compare).map((run) => h("tr", { "aria-selected": run.run === current ? "true" : null, on: { click: (event) => {
    if (!event.target.closest("a") && !String(getSelection())) open(run);
  } } },
    COLUMNS.map((each, index) => {
      const content = each.cell(run, stats[run.run]);
      return h("td", { class: each.right ? "right" : `run-${each.name}` }, index ? content : h("a", { href: linkOf(run) }, content));
    })));
  return h("div", { class: "table-frame runs-table" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)));
}

function groups(runs) {
  const byGroup = new Map();
  for (const run of runs) {
    const key = run.facts?.group ?? "";
    byGroup.set(key, [...(byGroup.get(key) ?? []), run]);
  }
  return [...byGroup.values()];
}

/** All runs, as `order` says: a column's name (`-` before it: the other way), or "" for the layout that fits. */
export function runsView(runs, stats, { layout, order, current, linkOf, open, change }) {
  const asTable = layout ? layout === "table" : runs.length > MANY;
  const choice = (name, label) => button(label, () => change({ runs: name }), { "aria-pressed": (name === "table") === asTable ? "true" : "false" });
  const head = h("div", { class: "runs-head" }, h("h2", {}, counted(runs.length, "run")), h("div", { class: "switch", role: "group", "aria-label": "Layout of the runs" }, choice("cards", "Cards"), choice("table", "Table")));
  if (asTable) return [head, table(runs, stats, { order: order ?? "-date", current, linkOf, open, sort: (by) => change({ by }) })];
  const sections = groups(runs).map((group) => h("section", { class: "run-group", "aria-label": plain(playedBy(group[0])) },
    h("h3", {}, inline(playedBy(group[0]))),
    h("div", { class: "cards" }, [...group].sort((one, other) => (other.facts?.date ?? 0) - (one.facts?.date ?? 0)).map((run) => card(run, stats[run.run], { current: run.run === current, link: linkOf(run) })))));
  return [head, h("div", { class: "run-groups" }, sections)];
}

/** The heading of the run that is shown. */
export function runHead(run) {
  return [h("h1", {}, inline(playedBy(run)), h("span", {}, " ", inline(modelOf(run)))),
    h("p", { class: "run-facts" }, h("time", {}, day(run.facts?.date)), h("span", {}, inline(run.name), `, ${bytes(run.bytes ?? 0)}`), runState(run)),
    h("p", { class: "chips" }, run.facts?.engine && h("span", { class: "chip" }, "engine ", h("b", {}, inline(run.facts.engine))), chips(run))];
}
