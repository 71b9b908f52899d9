// Where we are is in the address's fragment, so that it can be sent to others and the back button works:
// #run=sums&task=3&repeat=1&tab=tokens, with the list's filters beside it, the dataset (`of`) if a run has some, and the seat of several players. A run has its file's name, or its number among
// the files. Of two episodes of one task and repeat (files that were put together) the entry in the history knows which;
// a link opens the first. A line of the file that is no record has no task: #run=sums&line=17.

const NUMBERS = ["task", "repeat", "line", "vs"];
export const FILTERS = ["q", "outcome", "dataset", "failure_kind", "reward_min", "reward_max"];
const LIST = [...FILTERS, "sort", "desc", "runs", "by"];

const listeners = [];
let keys = [];

/** Says which names the runs have in addresses. */
export function nameRuns(runs) {
  keys = runs.map((run) => String(run.key ?? run.run));
}

function runOf(text) {
  if (!text) return { run: 0 };
  const place = keys.indexOf(text);
  if (place >= 0) return { run: place };
  return /^\d{1,6}$/.test(text) && Number(text) < Math.max(1, keys.length) ? { run: Number(text) } : { run: 0, unknown: text };
}

/** What the address says: numbers where they are ones, other parts as text. */
export function readRoute() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const route = { ...runOf(parts.get("run")), n: history.state?.n ?? null };
  for (const name of NUMBERS) if (/^-?\d{1,15}$/.test(parts.get(name) ?? "")) route[name] = Number(parts.get(name));
  for (const name of [...LIST, "of", "seat", "tab", "text"]) if (parts.get(name)) route[name] = parts.get(name);
  return route;
}

/** A fragment for a route. */
export function fragment(route) {
  const parts = new URLSearchParams();
  if (keys.length > 1) parts.set("run", keys[route.run] ?? route.run);
  for (const name of [...NUMBERS, "of", "seat", "tab", "text", ...LIST]) {
    const value = route[name];
    if (value !== undefined && value !== null && value !== "") parts.set(name, value);
  }
  return `#${parts}`;
}

/** The same list, without an episode. */
export function listOf(route) {
  return Object.fromEntries(["run", ...LIST].filter((name) => name in route).map((name) => [name, route[name]]));
}

/** The route to a row's episode, in the list that a route shows. */
export function routeOf(route, row) {
  const which = typeof row.task === "number" ? { task: row.task, repeat: row.repeat, of: row.dataset || undefined } : { line: row.n };
  return { ...listOf(route), ...which, n: row.n };
}

/** Whether a route shows an episode, and not the list. */
export function isEpisode(route) {
  return route.task !== undefined || route.line !== undefined;
}

/** Goes somewhere: a new entry of the history, or with `replace` this one changed. */
export function go(route, { replace = false } = {}) {
  const change = replace ? history.replaceState : history.pushState;
  change.call(history, { n: route.n ?? null }, "", fragment(route));
  for (const listener of listeners) listener(readRoute());
}

/** Calls `listener` with the route whenever it changes. */
export function onRoute(listener) {
  listeners.push(listener);
  if (listeners.length === 1) {
    addEventListener("popstate", () => {
      for (const each of listeners) each(readRoute());
    });
  }
}
