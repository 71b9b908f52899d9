// Filters, order and grid pages over the rows of an exported page: what the server does with its index.

const texts = new WeakMap();

const valueOf = (row, name) => (Object.hasOwn(row, name) && name !== "fields" ? row[name] : Object.hasOwn(row.fields ?? {}, name) ? row.fields[name] : null) ?? null;

function wholeText(record) {
  if (!texts.has(record)) texts.set(record, JSON.stringify(record).toLowerCase());
  return texts.get(record);
}

/** The rows that a query asks for; a text is looked for in the whole record, its ids and numbers too. */
export function filtered(rows, query, recordOf) {
  const bounds = Object.entries(query).filter(([name, bound]) => /_m(in|ax)$/.test(name) && bound !== undefined);
  const within = (row) => bounds.every(([name, bound]) => {
    const value = valueOf(row, name.slice(0, -4));
    return typeof value === "number" && (name.endsWith("_min") ? value >= Number(bound) : value <= Number(bound));
  });
  const needle = query.q ? JSON.stringify(query.q).slice(1, -1).toLowerCase() : "";
  return rows.filter(
    (row) =>
      (!query.outcome || row.outcome === query.outcome) &&
      (!query.dataset || row.dataset === query.dataset) &&
      (!query.failure_kind || row.failure_kind === query.failure_kind) &&
      (query.task === undefined || row.task === Number(query.task)) &&
      (query.repeat === undefined || row.repeat === Number(query.repeat)) &&
      within(row) &&
      (!needle || wholeText(recordOf(row)).includes(needle)),
  );
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one) < String(other) ? -1 : String(one) > String(other) ? 1 : 0;
}

// By dataset and task, then by repeat: what `task` and `task_mean` sort by.
const byTask = (sign) => (one, other) => sign * (compare(one.dataset, other.dataset) || (one.task ?? 0) - (other.task ?? 0)) || (one.repeat ?? 0) - (other.repeat ?? 0) || one.n - other.n;

function byTaskMean(rows, sign) {
  const tasks = new Map();
  const keyOf = (row) => `${row.dataset}\u0000${row.task}`;
  for (const row of rows) if (typeof row.reward === "number") tasks.set(keyOf(row), [...(tasks.get(keyOf(row)) ?? []), row.reward]);
  const means = new Map([...tasks].map(([key, rewards]) => [key, rewards.reduce((sum, each) => sum + each, 0) / rewards.length]));
  const meanOf = (row) => means.get(keyOf(row)) ?? null;
  return [...rows].sort((one, other) => {
    const [first, second] = [meanOf(one), meanOf(other)];
    if (first === null || second === null) return (first === null) - (second === null) || byTask(sign)(one, other);
    return sign * (first - second) || byTask(sign)(one, other);
  });
}

/** The rows in a query's order; those without a value come last, either way. */
export function sorted(rows, query) {
  const sign = Number(query.desc) ? -1 : 1;
  if (!query.sort || query.sort === "n") return sign < 0 ? [...rows].reverse() : rows;
  if (query.sort === "task") return [...rows].sort((one, other) => (typeof one.task !== "number") - (typeof other.task !== "number") || byTask(sign)(one, other));
  if (query.sort === "task_mean") return byTaskMean(rows, sign);
  return [...rows].sort((one, other) => {
    const [first, second] = [valueOf(one, query.sort), valueOf(other, query.sort)];
    if (first === null || second === null) return (first === null) - (second === null) || one.n - other.n;
    return sign * compare(first, second) || one.n - other.n;
  });
}

/** A page of the grid of tasks and repeats. */
export function gridPage(grid, { offset = 0, limit = 1000 } = {}) {
  const page = (list) => list?.slice(offset, offset + limit);
  return { ...grid, tasks: page(grid.tasks), rewards: page(grid.rewards), cells: page(grid.cells), datasets: page(grid.datasets), total: grid.tasks.length };
}
