"""`report.html`: an evaluation's tables and plots on one page that needs nothing but itself."""

from __future__ import annotations

from base64 import b64encode
from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

from gym_llm.evaluation.examples import PAGE
from gym_llm.evaluation.plots import Plot
from gym_llm.evaluation.tables import NOTE, OVERVIEW, Table, headline, notices, plain, tables
from gym_llm.utils.json_codec import dumps

_STYLE = """
:root { color-scheme: light dark; --ink: #0f172a; --muted: #64748b; --line: #e2e8f0; --ground: #fff; --band: #f8fafc;
  --accent: #2563eb; --good: #047857; --bad: #b45309 }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e8f0; --muted: #94a3b8; --line: #334155; --ground: #0f172a;
  --band: #1e293b; --accent: #60a5fa; --good: #34d399; --bad: #fbbf24 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 78rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem; overflow-wrap: anywhere }
h2 { font-size: 1.1rem; margin: 2.4rem 0 .6rem }
p { margin: .6rem 0; color: var(--muted); max-width: 60rem; overflow-wrap: anywhere }
.state { display: inline-block; margin: 0; padding: .1rem .6rem; border: 1px solid; border-radius: 1rem;
  font-size: .85rem; color: var(--bad) }
.complete { color: var(--good) }
.notice { color: var(--bad); font-weight: 600 }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem }
th, td { padding: .45rem .75rem; text-align: right; white-space: nowrap; border-top: 1px solid var(--line) }
thead th { border-top: 0; background: var(--band); font-weight: 600; color: var(--muted) }
.word { text-align: left; white-space: normal }
.word bdi { display: inline-block; max-width: 18rem; overflow-wrap: break-word }
tbody tr:hover { background: var(--band) }
small { color: var(--muted); font-size: .85em }
img { max-width: 100%; height: auto; display: block; margin: .5rem auto }
.plot { overflow-x: auto }
@media (max-width: 70rem) {
  td small { display: block }
  th, td { padding: .4rem .5rem }
  thead th { white-space: normal }
}
@media (max-width: 52rem) {
  body { padding: 1.25rem 1rem 3rem }
  .state { border-radius: .6rem }
  .plot img { max-width: none; width: max(100%, 36rem) }
  .wide thead { display: none }
  .wide tr { display: block; padding: .5rem .75rem; border-top: 1px solid var(--line) }
  .wide tr:first-child { border-top: 0 }
  .wide td { display: flex; gap: .5rem; padding: .1rem 0; border: 0; text-align: right;
    white-space: normal }
  .wide td::before { content: attr(data-column); color: var(--muted); text-align: left; margin-right: auto }
}
details { margin-top: 2.4rem } summary { cursor: pointer; font-weight: 600 }
pre { overflow: auto; max-height: 30rem; padding: 1rem; background: var(--band); border-radius: .5rem;
  font-size: .8rem }
a { color: var(--accent) }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace }
"""
_FIRST = ("scores", "mean_reward", "pass_at_k", "rewards")


def page(data: Mapping[str, Any], plots: Sequence[Plot] = ()) -> str:
    """Return `results.json` as HTML.

    The page loads no files and runs no scripts, and its policy forbids both. Images are embedded, and names, values and
    errors are escaped.
    """
    title, state = headline(data)
    every = list(tables(data))
    leading = 1 + [table.title for table in every].index(OVERVIEW)
    is_complete = "state complete" if data.get("complete") else "state"
    records = ", ".join(f'<a href="./{quote(name)}">{_text(name)}</a>' for name in data.get("files", []))
    settings = dumps({name: data[name] for name in ("created", "gym_llm", "suite") if name in data}, indent=True)
    body = [
        f'<p class="{is_complete}">{_text(state)}</p>',
        *(f'<p class="notice">{_text(notice, whole=True)}</p>' for notice in notices(data)),
        *map(_table, every[:leading]),
        *(_plot(plot) for plot in plots if plot.name in _FIRST),
        *map(_table, every[leading:]),
        *(_plot(plot) for plot in plots if plot.name not in _FIRST),
        "<h2>Episodes</h2>",
        *_examples(data.get("examples", [])),
        f"<p>{records}; <code>gym-llm view records</code> shows them in a browser. "
        "All figures are in <code>results.json</code>.</p>",
        f"<details>\n<summary>How it was made</summary>\n<pre>{_text(settings.decode(), whole=True)}</pre>\n</details>",
    ]
    return _document(title, body)


def _examples(places: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a paragraph for each dataset, engine and kind, with a link to each episode as `TASK-REPEAT`."""
    links: defaultdict[str, list[str]] = defaultdict(list)
    for place in places:
        route = {"run": place["run"], "task": place["task"], "repeat": place["repeat"], "of": place["dataset"]}
        number = f"{place['task']}-{place['repeat']}"
        title = f"{place['kind']}: {place['dataset']}, {place['engine']}"
        links[title].append(f'<a href="./{PAGE}#{escape(urlencode(route))}">{number}</a>')
    return [f"<p>{_text(title)}: {' '.join(each)}</p>" for title, each in sorted(links.items())]


def tables_page(title: str, state: str, tables: Sequence[Table], *, is_good: bool) -> str:
    """Return tables as a page of the same looks, below a title and a sentence."""
    return _document(title, [f'<p class="state{" complete" * is_good}">{_text(state)}</p>', *map(_table, tables)])


def _document(title: str, body: Sequence[str]) -> str:
    style = f"style-src 'sha256-{_digest(_STYLE)}'"
    policy = f"default-src 'none'; img-src data:; {style}; base-uri 'none'; form-action 'none'"
    body = [f"<h1>{_text(title)}</h1>", *body]
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{_text(title)}</title>",
        f"<style>{_STYLE}</style>",
    ]
    lines = ["<!doctype html>", '<html lang="en">', "<head>", *head, "</head>", "<body>", *body, "</body>", "</html>"]
    return "\n".join(lines) + "\n"


def _table(table: Table) -> str:
    def cell(tag: str, number: int, text: str) -> str:
        # On a narrow screen there is no header: each cell shows the name of its column.
        column = f' data-column="{_text(table.header[number])}"' if tag == "td" else ""
        if number < table.words:
            return f'<{tag} class="word"{column}><bdi>{_text(text)}</bdi></{tag}>'
        figure, bracket, interval = text.partition(" [")
        inner = f"{_text(figure)} <small>[{_text(interval)}</small>" if bracket and tag == "td" else _text(text)
        return f"<{tag}{column}>{inner}</{tag}>"

    def line(tag: str, row: Sequence[str]) -> str:
        return f"<tr>{''.join(cell(tag, number, text) for number, text in enumerate(row))}</tr>"

    rows = "\n".join(line("td", row) for row in table.rows)
    note = f"\n<p>{escape(plain(table.note, NOTE))}</p>" if table.note else ""
    return (
        f'<h2>{_text(table.title)}</h2>\n<div class="wide"><table>\n<thead>{line("th", table.header)}</thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>{note}"
    )


def _plot(plot: Plot) -> str:
    light, dark = (f"data:image/svg+xml;base64,{b64encode(image).decode()}" for image in (plot.files["svg"], plot.dark))
    return (
        f'<h2>{_text(plot.title)}</h2>\n<div class="plot"><picture>'
        f'<source srcset="{dark}" media="(prefers-color-scheme: dark)">'
        f'<img src="{light}" alt="{_text(plot.title)}"></picture></div>'
    )


def _text(text: str, *, whole: bool = False) -> str:
    return escape(text if whole else plain(text))


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
