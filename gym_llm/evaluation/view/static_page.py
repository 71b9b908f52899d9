"""A self-contained page: opens from disk, asks no server, and runs no script but its own.

The page's modules become one script: each is a function that returns what it exports, called in the order in which they
need each other. That takes modules in a plain style (see `_bundled`), and leaves nothing for a bundler to do. The code
of others (`static/vendor`) is another script, and its fonts are in the style sheet. The data
are compressed, in base64: whatever a model wrote, none of it is read as HTML.
"""

from __future__ import annotations

import asyncio
import gzip
import html
import os
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from gym_llm.data.files.atomic import write_atomically
from gym_llm.errors import UsageError
from gym_llm.evaluation.view.episode_page import episode_json
from gym_llm.evaluation.view.index import RunIndex, scan_pool
from gym_llm.evaluation.view.run_stats import points, run_stats
from gym_llm.evaluation.view.view_server import MOST_ROWS, STATIC, describe_all
from gym_llm.evaluation.view.vocabulary import pieces_of
from gym_llm.utils.json_codec import dumps, loads

MOST_BYTES = 10_000_000
"""The largest exported page, if its conversations fit: token ids and log probabilities are left out beyond it."""

_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"\./([\w.-]+)";', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function\*?|function\*?|class|const) ([A-Za-z_$][\w$]*))", re.MULTILINE)
_EXPORTS = re.compile(r"^export \{([^}]*)\};", re.MULTILINE)
_LEFT = re.compile(r"^(import|export)\b.*", re.MULTILINE)
_SCRIPT = re.compile(r'<script type="module" src="/static/([\w.-]+)"></script>')
_LIBRARY = re.compile(r'<script defer src="/static/(vendor/[\w.-]+)"></script>')
_STYLE = re.compile(r'<link rel="stylesheet" href="/static/([\w./-]+)">')
_FONT = re.compile(r"url\((fonts/[\w-]+\.woff2)\) format\(.woff2.\)(,url\([\w./-]+\) format\(.\w+.\))*")
_DIGITS = 4
_TOLD_SECONDS = 0.1


async def export_page(
    paths: Sequence[Path],
    page: str | os.PathLike[str],
    *,
    max_episodes: int = 1000,
    note: str = "",
    tell: Callable[[RunIndex], object] = lambda run: None,
) -> str:
    """Write runs as one HTML file.

    Args:
        paths: The rollout files.
        page: The file to write; replaced if it is there.
        max_episodes: The most episodes of all runs together: of each run its share, the first ones.
        note: What the page says of the episodes that it has.
        tell: Called ten times a second while a run is read, which takes a while if it is large.

    Returns:
        What was left out, as sentences; empty if nothing was.

    Raises:
        UsageError: If a file cannot be read, or is the page's.
        DataError: If the page cannot be written.
    """
    for path in paths:
        if os.path.exists(page) and os.path.exists(path) and os.path.samefile(page, path):
            raise UsageError(f"{page} is the file of rollouts itself: name another file for the page.")
    runs = [RunIndex(path) for path in paths]
    try:
        with scan_pool() as pool:
            for run in runs:
                updating = asyncio.create_task(run.update(pool))
                while not (await asyncio.wait([updating], timeout=_TOLD_SECONDS))[0]:
                    tell(run)
                await updating
        data = _data(runs, max_episodes)
        data["note"] = f"{note} {data['note']}".strip()
    finally:
        for run in runs:
            run.close()
    text = _page(data)
    if len(text) > MOST_BYTES and any([_drop_tokens(record) for run in data["episodes"] for record in run]):
        data["pieces"] = [{**each, "pieces": {}} for each in data["pieces"]]
        data["note"] = f"{data['note']} Token ids and log probabilities are left out.".strip()
        text = _page(data)
    write_atomically(page, text)
    return data["note"]


def _data(runs: list[RunIndex], most: int) -> dict[str, Any]:
    """Return the page's data: the server's answers, with the episodes numbered by their place in the page."""
    counts = _shares([len(run.table) for run in runs], most)
    listed = [each | {"growing": False, "indexed": 1.0} for each in describe_all(runs)]
    data: dict[str, Any] = {
        "runs": listed,
        "rows": [],
        "stats": [],
        "episodes": [],
        "points": [],
        "pieces": [],
        "note": "",
    }
    for run, count in zip(runs, counts, strict=True):
        table = run.table
        data["rows"].append(table.rows(range(count)))
        data["stats"].append(
            run_stats(table) | {"grid": run_stats(table, limit=max(MOST_ROWS, count), first=count)["grid"]}
        )
        data["points"].append(points(table))
        data["episodes"].append([_rounded(loads(episode_json(run, n))) for n in range(count)])
        data["pieces"].append(pieces_of(run, data["episodes"][-1]))
    total, shown = sum(len(run.table) for run in runs), sum(counts)
    if shown < total:
        data["note"] = f"{shown:,} of {total:,} episodes are in this page; the figures are of all."
    return data


def _shares(counts: list[int], most: int) -> list[int]:
    shares = [0] * len(counts)
    for place, n in enumerate(np.argsort(counts, kind="stable").tolist()):
        shares[n] = min(counts[n], (most - sum(shares)) // (len(counts) - place))
    return shares


def _rounded(record: Any) -> Any:
    """A record with its log probabilities to four digits, in place: enough for a colour, and half the page."""
    for segment in _objects(record, "trajectory"):
        _round(segment, "logprobs")
    response = record.get("response") if isinstance(record, dict) else None
    for item in _objects(response, "output"):
        _round(item, "generation_log_probs")
        item.pop("prompt_token_ids", None)  # the turns before have them
    return record


def _drop_tokens(record: Any) -> bool:
    """Leave out a record's token data; whether there was any."""
    dropped = bool(isinstance(record, dict) and record.pop("trajectory", None))
    response = record.get("response") if isinstance(record, dict) else None
    for item in _objects(response, "output"):
        for name in ("generation_token_ids", "generation_log_probs", "trajectory_span"):
            dropped |= item.pop(name, None) is not None
    return dropped


def _objects(value: Any, name: str) -> list[dict[str, Any]]:
    items = value.get(name) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _round(value: dict[str, Any], name: str) -> None:
    if isinstance(numbers := value.get(name), list):
        value[name] = [round(number, _DIGITS) if type(number) is float else number for number in numbers]


# The page -------------------------------------------------------------------------------------------------------------


def _page(data: dict[str, Any]) -> bytes:
    packed = b64encode(gzip.compress(dumps(data), 9, mtime=0)).decode()
    page = (STATIC / "index.html").read_text("utf-8")
    style = "\n".join(_with_fonts(name) for name in _STYLE.findall(page))
    script = "".join(_bundled(name) for name in _SCRIPT.findall(page))
    library = "\n".join((STATIC / name).read_text("utf-8") for name in _LIBRARY.findall(page))
    for content, end in ((style, "</style"), (script, "</script"), (library, "</script")):
        if end in content.lower():
            raise ValueError(f"the page's own files must not have {end}")
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(script)}; style-src {_hash(style)}; font-src data:; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
        "trusted-types dompurify"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n<style>{style}</style>'
    blocks = f'''<script type="application/json" id="view-data">"{packed}"</script>
<script>{library}</script>
<script type="module">{script}</script>'''
    page = _SCRIPT.sub("", _LIBRARY.sub("", _STYLE.sub("", page)))
    page = page.replace("</body>", f"{blocks}\n</body>", 1)  # before anything is put in that could have it, too
    return page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{head}', 1).encode()


def _with_fonts(name: str) -> str:
    """A style sheet with its fonts in it."""
    folder = (STATIC / name).parent

    def packed(match: re.Match[str]) -> str:
        return f"url(data:font/woff2;base64,{b64encode((folder / match[1]).read_bytes()).decode()}) format('woff2')"

    return _FONT.sub(packed, (STATIC / name).read_text("utf-8"))


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _bundled(name: str) -> str:
    """A module and all that it imports as one script.

    The modules say `import { a, b as c } from "./x.js";` and `export function …` (or `async function`, `class`,
    `const`) or `export { a, b };` at the beginning of a line, and do not import each other in a circle.
    """
    done: dict[str, str] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"modules import each other in a circle: {' -> '.join((*above, name))}")
        if name in done:
            return
        source = (STATIC / name).read_text("utf-8")
        for _, other in _IMPORT.findall(source):
            add(other, (*above, name))
        exports = _EXPORT.findall(source)
        for names in _EXPORTS.findall(source):
            exports += [each.strip() for each in names.split(",") if each.strip()]
        source = _IMPORT.sub(
            lambda match: f"const {{{match[1].replace(' as ', ': ')}}} = {_variable(match[2])};", source
        )
        source = _EXPORTS.sub("", _EXPORT.sub("", source))
        if left := _LEFT.search(source):
            raise ValueError(f"{name}: cannot bundle {left[0]!r}")
        done[name] = f"const {_variable(name)} = (() => {{\n{source}\nreturn {{ {', '.join(exports)} }};\n}})();\n"

    add(name, ())
    return "".join(done.values())


def _variable(name: str) -> str:
    return "module_" + re.sub(r"\W", "_", name)
