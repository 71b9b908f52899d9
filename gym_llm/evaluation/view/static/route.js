// Where we are is in the address's fragment, so that it can be sent to others and the back button works:
// #run=0&task=3&repeat=1&tab=tokens, with the list's filters beside it. Of two episodes of one task and repeat (files
// that were put together) the entry in the history knows which; a link opens the first. A line of the file that is no
// record has no task: #run=0&line=17.

const NUMBERS = ["run", "task", "repeat", "line", "vs"];
export const FILTERS = ["q", "outcome", "dataset", "failure_kind", "reward_min", "reward_max"];
const LIST = [...FILTERS, "sort", "desc"];

const listeners = [];

/** What the address says: numbers where they are ones, other parts as text. */
export function readRoute() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const route = { run: 0, n: history.state?.n ?? null };
  for (const name of NUMBERS) if (/^-?\d{1,15}$/.test(parts.get(name) ?? "")) route[name] = Number(parts.get(name));
  for (const name of [...LIST, "tab"]) if (parts.get(name)) route[name] = parts.get(name);
  return route;
}

/** A fragment for a route. */
export function fragment(route) {
  const parts = new URLSearchParams();
  for (const name of [...NUMBERS, "tab", ...LIST]) {
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
  const which = typeof row.task === "number" ? { task: row.task, repeat: row.repeat } : { line: row.n };
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
