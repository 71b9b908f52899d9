// The page: its bar, what the address says is shown, keys, the theme, and files that grow.
import { openSource } from "./data.js";
import { button, h } from "./dom.js";
import { EpisodePage, episodeName } from "./episode.js";
import { bytes, counted, forgetColours } from "./format.js";
import { helpDialog, listenToKeys } from "./keys.js";
import { Overview, rangeOf } from "./overview.js";
import { fragment, go, isEpisode, listOf, nameRuns, onRoute, readRoute, routeOf } from "./route.js";
import { runState } from "./runs.js";
import { inline } from "./text.js";

const POLL = 1000; // milliseconds between questions whether files have grown

const source = openSource();
const overview = new Overview(source, go, openRow);
const page = new EpisodePage(source, go);
const back = h("a", { class: "back", href: "#" }, "\u2190 All episodes");
const steps = h("span", { class: "steps" }, button("\u2191", () => step(-1), { class: "quiet", "aria-label": "Previous episode", title: "previous (k)" }), button("\u2193", () => step(1), { class: "quiet", "aria-label": "Next episode", title: "next (j)" }));
const place = h("span", { class: "place" });
const message = h("p", { class: "message-bar", role: "alert", hidden: true });
const help = helpDialog();

let runs = [];
let position = null; // of the episode that is shown, in the list
let shownRow = null;
let scrolled = 0; // where the list was left

function theme() {
  return document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function repaint() {
  forgetColours();
  overview.redraw();
  if (shownRow) show(readRoute());
}

function switchTheme() {
  document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("gym-llm-theme", document.documentElement.dataset.theme);
  } catch {
    // Pages from disk may have no storage: the choice lasts as long as the page.
  }
  repaint();
}

function say(error) {
  message.hidden = !error;
  message.textContent = error ? String(error.message ?? error) : "";
}

function openRow(row, at) {
  position = at;
  shownRow = { ...row, run: readRoute().run };
  go(routeOf(readRoute(), row));
}

// The row of a route's episode: the one at hand, the one its history entry knows, or the first of that name.
async function rowOf(route) {
  const fits = (row) => row && (route.line === undefined ? row.task === route.task : row.n === route.line) && (route.repeat === undefined || row.repeat === route.repeat) && (route.of === undefined || row.dataset === route.of);
  if (fits(shownRow) && shownRow.run === route.run && (route.n === null || route.n === shownRow.n)) return shownRow;
  if (route.line !== undefined) return (await source.rows(route.run, { n_min: route.line, n_max: route.line })).rows[0];
  const { rows } = await source.rows(route.run, { task: route.task, dataset: route.of, limit: 1000 });
  return rows.find((row) => row.n === route.n && fits(row)) ?? rows.find(fits);
}

async function step(by) {
  if (!shownRow) return overview.table.select(overview.table.selected < 0 && by > 0 ? 0 : overview.table.selected + by);
  const { list } = overview;
  position ??= await list.positionOf(shownRow.n);
  const row = position + by >= 0 ? await list.row(position + by) : undefined;
  if (!row) return;
  position += by;
  shownRow = { ...row, run: readRoute().run };
  const { tab, text } = readRoute();
  go({ ...routeOf(readRoute(), row), tab, text }, { replace: true });
}

async function showEpisode(route) {
  const row = await rowOf(route);
  if (!row) {
    say(`This file has no ${episodeName({ ...route, n: route.line })}.`);
    return showList();
  }
  if (!shownRow || shownRow.n !== row.n || shownRow.run !== route.run) position = null;
  const changed = shownRow?.n !== row.n || page.element.hidden;
  shownRow = { ...row, run: route.run };
  if (row.dataset && route.of === undefined) history.replaceState({ n: row.n }, "", fragment({ ...route, ...routeOf(route, row) })); // so that a copied address is exact
  await page.show(route, row, rangeOf(overview.stats[route.run]));
  if (!overview.element.hidden) scrolled = scrollY;
  overview.element.hidden = true;
  page.element.hidden = false;
  back.hidden = steps.hidden = false;
  back.setAttribute("href", fragment(listOf(route)));
  drawPlace(route);
  document.title = `${episodeName(row)} \u2013 gym-llm view`;
  if (changed) {
    scrollTo(0, 0);
    page.element.focus({ preventScroll: true });
  }
}

function showList() {
  const returned = overview.element.hidden;
  shownRow = null;
  overview.element.hidden = false;
  page.element.hidden = true;
  overview.element.hidden = isEpisode(readRoute());
  back.hidden = steps.hidden = true;
  drawPlace(readRoute());
  document.title = "gym-llm view";
  if (!returned) return;
  if (position !== null) overview.table.selected = position;
  overview.table.redraw();
  scrollTo(0, scrolled);
  overview.table.draw();
}

function drawPlace(route) {
  const run = runs.find((each) => each.run === route.run) ?? runs[0];
  const alone = runs.length === 1 && !shownRow ? h("span", { class: "note" }, ` ${counted(run.episodes, "episode")}, ${bytes(run.bytes ?? 0)} `) : null;
  place.replaceChildren(inline(run.name), ...(alone ? [alone, runState(run) ?? ""] : []));
}

let latest = 0;

async function show(route) {
  const turn = (latest += 1);
  say(route.unknown === undefined ? null : `No file here is named ${route.unknown}: ${runs[0].key} is shown.`);
  if (route.unknown !== undefined) for (const name of ["task", "line"]) delete route[name];
  try {
    const listing = overview.show(runs, route);
    if (!isEpisode(route)) showList();
    await listing;
    if (turn === latest && isEpisode(route)) await showEpisode(route);
  } catch (error) {
    if (turn === latest) say(error);
  }
}

const same = (one, other) => one && other && one.episodes === other.episodes && one.indexed === other.indexed && one.changed === other.changed && one.growing === other.growing && JSON.stringify(one.facts) === JSON.stringify(other.facts);

async function poll() {
  if (document.hidden) return setTimeout(poll, POLL);
  try {
    const now = await source.runs();
    const changed = now.filter((run, index) => !same(run, runs[index])).map((run) => run.run);
    if (!changed.length || (await overview.refresh(now, changed))) runs = now; // else it is tried again
    if (changed.length) {
      drawPlace(readRoute());
      say(null);
    }
  } catch (error) {
    say(error instanceof TypeError && /fetch/i.test(error.message) ? "gym-llm view has ended: start it again to go on." : error);
  }
  setTimeout(poll, POLL);
}

function buildPage() {
  try {
    const chosen = localStorage.getItem("gym-llm-theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch {
    // As above.
  }
  const bar = h("header", { class: "bar" }, h("a", { class: "brand", href: "#" }, h("i", { "aria-hidden": "true" }), "gym-llm view"), back, place, h("span", { class: "fill" }), steps,
    button("\u25d0", switchTheme, { class: "quiet", "aria-label": "Dark or light", title: "dark or light (m)" }),
    button("?", () => help.showModal(), { class: "quiet", "aria-label": "Keys", title: "keys (?)" }));
  back.hidden = steps.hidden = true;
  page.element.hidden = true;
  overview.element.hidden = isEpisode(readRoute());
  document.body.append(bar, message, overview.element, page.element, help);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  const tab = (name) => () => shownRow && go({ ...readRoute(), n: shownRow.n, tab: name, vs: undefined }, { replace: true });
  listenToKeys({
    j: () => step(1), k: () => step(-1), m: switchTheme, c: tab(undefined), t: tab("tokens"), d: tab("diff"), r: tab("record"),
    s: () => shownRow && go({ ...readRoute(), n: shownRow.n, text: readRoute().text ? undefined : "source" }, { replace: true }),
    "?": () => help.showModal(),
    "/": () => {
      if (shownRow) go(listOf(readRoute()));
      overview.searchField.focus();
      overview.searchField.select();
    },
    Escape: () => shownRow && go(listOf(readRoute())),
    Enter: () => {
      const { table } = overview;
      if (!shownRow && table.current) openRow(table.current, table.selected);
    },
  });
}

async function start() {
  buildPage();
  try {
    runs = await source.runs();
  } catch (error) {
    return say(error);
  }
  if (!runs.length) return say("There is no rollout file here.");
  nameRuns(runs);
  onRoute(show);
  const left = await source.note();
  if (left) overview.element.prepend(h("p", { class: "note left-out" }, left));
  await show(readRoute());
  if (source.live) setTimeout(poll, POLL);
}

start();
