// The list's rows as they are needed, page by page, in the order and with the filters of the moment.

const PAGE = 200;
const KEPT = 40; // pages

/** The rows that match a query; what has been fetched is kept, and shown while a newer answer is on its way. */
export class RowList {
  total = 0;
  fields = [];
  searched = 1;
  #source;
  #run;
  #query;
  #pages = new Map();
  #asked = new Map();
  #stop = new AbortController();
  #refreshed = 0;

  constructor(source, run, query) {
    this.#source = source;
    this.#run = run;
    this.#query = query;
  }

  /** The row at a position, if it has been fetched. */
  at(position) {
    return this.#pages.get(Math.floor(position / PAGE))?.[position % PAGE];
  }

  /** Fetches what is missing of these positions; whether anything was. */
  async need(first, last) {
    const asked = [];
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(first, last - 1) / PAGE); page += 1) {
      if (!this.#pages.has(page) || this.#pages.get(page).stale) asked.push(this.#fetch(page));
    }
    await Promise.all(asked);
    return asked.length > 0;
  }

  /** The row at a position, fetched if it must be; undefined behind the end. */
  async row(position) {
    await this.need(position, position + 1);
    return this.at(position);
  }

  /** Where an episode stands in the list, or -1. */
  async positionOf(n) {
    return (await this.#source.position(this.#run, this.#query, n)) ?? -1;
  }

  /** The file has grown: rows that are shown stay until their newer ones are there. */
  refresh() {
    this.#refreshed += 1;
    for (const rows of this.#pages.values()) rows.stale = true;
    this.#asked.clear();
  }

  /** Nobody waits for this list any more. */
  close() {
    this.#stop.abort();
  }

  #fetch(page) {
    if (!this.#asked.has(page)) {
      const asked = this.#load(page).finally(() => {
        if (this.#asked.get(page) === asked) this.#asked.delete(page);
      });
      this.#asked.set(page, asked);
    }
    return this.#asked.get(page);
  }

  async #load(page) {
    const refreshed = this.#refreshed;
    // A search through a large file answers with what it has after a while, and is asked again.
    for (let deadline = 1000; ; deadline *= 2) {
      const patience = this.#query.q ? { deadline_ms: deadline } : {};
      const query = { ...this.#query, ...patience, offset: page * PAGE, limit: PAGE };
      const answer = await this.#source.rows(this.#run, query, this.#stop.signal);
      if (refreshed !== this.#refreshed) return; // the file has grown meanwhile: a newer answer is on its way
      this.total = answer.total;
      this.fields = answer.fields ?? [];
      this.searched = answer.searched ?? 1;
      this.#pages.set(page, answer.rows);
      if (this.#pages.size > KEPT) this.#pages.delete(this.#pages.keys().next().value);
      if (this.searched >= 1 || deadline > 60_000) return;
      this.onProgress?.();
    }
  }
}
