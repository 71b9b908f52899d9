// Where records come from: the server that `gym-llm view` started, or this page itself, if it was exported. Both answer
// the same questions with the same shapes, as promises.
import { filtered, gridPage, sorted } from "./embedded.js";

class Server {
  live = true;
  #token = new URLSearchParams(location.search).get("token") ?? "";

  async #get(path, parts, signal) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(parts ?? {})) {
      if (value !== undefined && value !== null && value !== "") query.set(name, value);
    }
    const answer = await fetch(`/api/${path}?${query}`, { signal, cache: "no-store", headers: { "X-Token": this.#token } });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.error);
    return body;
  }

  async note() {
    return "";
  }

  runs() {
    return this.#get("runs");
  }

  rows(run, query, signal) {
    return this.#get("rows", { run, ...query }, signal);
  }

  stats(run, query, signal) {
    return this.#get("stats", { run, ...query }, signal);
  }

  /** Where an episode stands in a list, or null. */
  async position(run, query, n) {
    return (await this.#get("rows", { run, ...query, at: n, limit: 0 })).position;
  }

  points(run, query) {
    return this.#get("points", { run, ...query });
  }

  episode(run, n) {
    return this.#get("episode", { run, n });
  }

  /** The texts of an episode's token ids: `{tokenizer, pieces, special, missing}`. */
  pieces(run, n) {
    return this.#get("pieces", { run, n });
  }

  async siblings(run, n) {
    return (await this.#get("siblings", { run, n })).rows;
  }
}

async function unpacked(element) {
  const packed = Uint8Array.from(atob(JSON.parse(element.textContent)), (character) => character.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

class Embedded {
  live = false;
  #block;
  #whole = null;

  constructor(block) {
    this.#block = block;
  }

  #data() {
    return (this.#whole ??= unpacked(this.#block));
  }

  async runs() {
    return (await this.#data()).runs;
  }

  /** What is not in the page, as a sentence. */
  async note() {
    return (await this.#data()).note ?? "";
  }

  async rows(run, query) {
    const data = await this.#data();
    const { fields, rows } = listed(data, run);
    const matching = sorted(filtered(rows, query, (row) => data.episodes[run][row.n]), query);
    const offset = query.offset ?? 0;
    return { total: matching.length, rows: matching.slice(offset, offset + (query.limit ?? 200)), fields };
  }

  async position(run, query, n) {
    const { rows } = await this.rows(run, { ...query, offset: 0, limit: Infinity });
    const place = rows.findIndex((row) => row.n === n);
    return place < 0 ? null : place;
  }

  async points(run, { dataset } = {}) {
    const points = (await this.#data()).points[run];
    const { rows } = listed(await this.#data(), run);
    const shown = points.n.map((n, index) => index).filter((index) => dataset === undefined || rows[points.n[index]]?.dataset === dataset);
    return { ...Object.fromEntries(["n", "tokens", "reward", "task", "repeat"].map((name) => [name, shown.map((index) => points[name][index])])), total: dataset === undefined ? points.total : shown.length };
  }

  async pieces(run) {
    return (await this.#data()).pieces[run];
  }

  async stats(run, query) {
    const stats = (await this.#data()).stats[run];
    return { ...stats, grid: gridPage(stats.grid, query) };
  }

  async episode(run, n) {
    return (await this.#data()).episodes[run][n];
  }

  async siblings(run, n) {
    const { rows } = listed(await this.#data(), run);
    const own = rows.find((row) => row.n === n);
    return rows.filter((row) => row.task === own.task && row.dataset === own.dataset);
  }
}

function listed(data, run) {
  const rows = data.rows[run];
  data.fields ??= data.rows.map((each) => [...new Set(each.flatMap((row) => Object.keys(row.fields ?? {})))]);
  return { rows, fields: data.fields[run] };
}

/** The source of this page's records. */
export function openSource() {
  const block = document.querySelector('script[type="application/json"]');
  return block ? new Embedded(block) : new Server();
}
