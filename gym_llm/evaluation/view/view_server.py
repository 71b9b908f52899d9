"""ViewServer: rollout files for the browser on this machine only."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from hmac import compare_digest
from pathlib import Path
from typing import Any

from aiohttp import web

from gym_llm.errors import DataError, UsageError
from gym_llm.evaluation.view.episode_page import episode_json
from gym_llm.evaluation.view.episode_table import NAMES, OUTCOMES, UNREADABLE, EpisodeTable
from gym_llm.evaluation.view.index import RunIndex, scan_pool
from gym_llm.evaluation.view.run_facts import describe, run_keys
from gym_llm.evaluation.view.run_files import shown_name
from gym_llm.evaluation.view.run_stats import points, run_stats
from gym_llm.evaluation.view.search import LONGEST_QUERY, Search
from gym_llm.evaluation.view.vocabulary import pieces_of
from gym_llm.protocols.http.http_server import HttpServer, http_problem
from gym_llm.records.failures import reason
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.utils.secrets import redacted_logger

HOST = "127.0.0.1"
MOST_ROWS = 1000
"""The most rows, or tasks of the grid, in one answer."""

STATIC = Path(__file__).with_name("static")
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types dompurify"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FOLLOW_SECONDS = 0.5
_MOST_SEARCHES = 4
_LONGEST_SEARCH_SECONDS = 10.0
logger = redacted_logger(__name__)


class ViewServer(HttpServer):
    """Serves rollout files to a browser on this machine.

    An async context manager: it opens the port at once, and reads the files and follows their growth until it ends. It
    listens on 127.0.0.1 and requires the token. It accepts only host names of this machine, so a page of another site
    cannot reach it by DNS rebinding. It only reads.

    Args:
        paths: The files.
        port: 0 for any that is free.

    Attributes:
        url: The address for a browser, with the token, while it runs.
        token: The token, which a request for `/` or `/api/` sends as the header `X-Token` or as `?token=`.
        runs: The files' indexes.

    Raises:
        UsageError: If a file cannot be read; by entering it, if the port cannot be opened.
    """

    closing_seconds = 1.0

    def __init__(self, paths: Sequence[Path], *, port: int = 0) -> None:
        super().__init__(port=port)
        self.runs = [RunIndex(path) for path in paths]
        self.token = secrets.token_urlsafe(32)
        self._searches: dict[tuple[int, str], Search] = {}

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        return f"{super().url}/?token={self.token}"

    async def _start(self, stack: AsyncExitStack) -> None:
        for run in self.runs:
            stack.callback(run.close)
        following = asyncio.create_task(self._follow())
        stack.push_async_callback(_end, following)

    async def _stop(self) -> None:
        self._end_searches()

    def _add_routes(self, application: web.Application) -> None:
        application.add_routes(
            [
                web.get("/", self._index),
                web.get("/static/{name:.*}", self._static),
                web.get("/api/runs", self._runs),
                web.get("/api/rows", self._rows),
                web.get("/api/stats", self._stats),
                web.get("/api/episode", self._episode),
                web.get("/api/siblings", self._siblings),
                web.get("/api/points", self._points),
                web.get("/api/pieces", self._pieces),
            ]
        )

    async def _follow(self) -> None:
        """Read the files, one after the other, and then what is added to them."""
        with scan_pool() as pool:  # its processes are started when they are needed
            for run in self.runs:
                await _update(run, pool)
        while True:
            await asyncio.sleep(_FOLLOW_SECONDS)
            for run in self.runs:
                await _update(run, None)

    # -- endpoints ---------------------------------------------------------------------------------------------------

    async def _index(self, _: web.Request) -> web.Response:
        return _file("index.html")

    async def _static(self, http: web.Request) -> web.Response:
        return _file(http.match_info["name"])

    async def _runs(self, _: web.Request) -> web.Response:
        return _json(await asyncio.to_thread(lambda: describe_all(self.runs)))

    async def _rows(self, http: web.Request) -> web.Response:
        query = http.query
        run, offset, limit = self._run(http), _count(query, "offset", 0), _count(query, "limit", 200)
        text = query.get("q", "")
        if len(text) > LONGEST_QUERY:
            raise _refused(f"A search has at most {LONGEST_QUERY:,} characters.")
        seconds = min(_LONGEST_SEARCH_SECONDS, _count(query, "deadline_ms", 1000) / 1000)
        search = self._search(run, text) if text else None

        def find() -> dict[str, Any]:
            matches, searched = (None, 1.0) if search is None else search.matches(seconds)
            table = run.table
            where, parameters = conditions(table, dict(query))
            if matches is not None:
                where += " AND n IN (SELECT value FROM json_each(?))"
                parameters.append(dumps(matches).decode())
            order: dict[str, Any] = {"sort": query.get("sort") or "n", "descending": query.get("desc") in ("1", "true")}
            try:
                total, rows = table.find(where, parameters, **order, offset=offset, limit=min(limit, MOST_ROWS))
                position = table.position(_count(query, "at", 0), where, parameters, **order) if "at" in query else None
            except KeyError as error:
                raise _refused(f"There is no column {error} to sort by.") from None
            answer: dict[str, Any] = {"total": total, "rows": rows, "fields": table.fields}
            if "at" in query:
                answer["position"] = position
            return answer if searched >= 1.0 else {**answer, "searched": searched}

        return _json(await asyncio.to_thread(find))

    async def _stats(self, http: web.Request) -> web.Response:
        run, offset, limit = self._run(http), _count(http.query, "offset", 0), _count(http.query, "limit", 200)
        dataset = http.query.get("dataset")
        return _json(
            await asyncio.to_thread(
                lambda: run_stats(run.table, dataset=dataset, offset=offset, limit=min(limit, MOST_ROWS))
            )
        )

    async def _episode(self, http: web.Request) -> web.Response:
        run = self._run(http)
        n = self._row(http, run)
        return _answer(await asyncio.to_thread(episode_json, run, n))

    async def _siblings(self, http: web.Request) -> web.Response:
        run = self._run(http)
        table, n = run.table, self._row(http, run)
        same = (
            "JOIN (SELECT task AS t, dataset AS d, outcome AS o FROM episodes WHERE n = ?1) ON n = ?1 OR "
            f"(task = t AND dataset IS d AND outcome != {UNREADABLE} AND o != {UNREADABLE}) ORDER BY n LIMIT ?2"
        )
        return _json({"rows": table.rows([row for (row,) in table.select("n", same, (n, MOST_ROWS))])})

    async def _points(self, http: web.Request) -> web.Response:
        run = self._run(http)
        return _json(await asyncio.to_thread(points, run.table, http.query.get("dataset")))

    async def _pieces(self, http: web.Request) -> web.Response:
        run = self._run(http)
        n = self._row(http, run)
        return _json(await asyncio.to_thread(lambda: pieces_of(run, [loads(episode_json(run, n))])))

    # -- what they share ---------------------------------------------------------------------------------------------

    def _run(self, http: web.Request) -> RunIndex:
        number = _count(http.query, "run", 0)
        if number >= len(self.runs):
            raise _refused(f"There is no run {number}: there are {len(self.runs)}, counted from 0.", 404)
        return self.runs[number]

    def _row(self, http: web.Request, run: RunIndex) -> int:
        n, rows = _count(http.query, "n", 0), len(run.table)
        if n >= rows:
            raise _refused(f"There is no episode {n}: there are {rows:,}, counted from 0.", 404)
        return n

    def _search(self, run: RunIndex, text: str) -> Search:
        """The search for a text in a run, begun or under way; the ones that were asked for longest ago are ended."""
        key = self.runs.index(run), text
        search = self._searches.pop(key, None)
        if search is None or not search.is_of_this_file:
            search = Search(run, text)
        self._searches[key] = search
        while len(self._searches) > _MOST_SEARCHES:
            self._searches.pop(next(iter(self._searches))).cancel()
        return search

    def _end_searches(self) -> None:
        for search in self._searches.values():
            search.cancel()

    def _authorize(self, http: web.Request) -> None:
        """Answer only this machine's browser, with the token; the page's own code is not secret."""
        self._access.check_origin(http)
        if not http.path.startswith("/static/"):
            given = http.headers.get("X-Token") or http.query.get("token", "")
            if not compare_digest(given.encode(errors="replace"), self.token.encode()):
                raise _refused("The token is missing or wrong: open the address that `gym-llm view` printed.", 403)

    def _error_response(self, http: web.Request, error: Exception) -> web.Response:
        match error:
            case _Refusal():
                status, message = error.status, str(error)
            case DataError():
                status, message = 410, str(error)
            case _:
                status, message = http_problem(http, error) or (500, reason(error))
        if status == 500:
            logger.error("A request failed.", exc_info=error)
        return _json({"error": message}, status)


def describe_all(runs: Sequence[RunIndex]) -> list[dict[str, Any]]:
    """The runs as the page lists them, each with a `key` that addresses use."""
    keys = run_keys([run.path for run in runs])
    return [{**describe(n, run), "key": key} for n, (run, key) in enumerate(zip(runs, keys, strict=True))]


def conditions(table: EpisodeTable, query: dict[str, str]) -> tuple[str, list[Any]]:
    """Return the conditions of a query in SQL, and their parameters; a refusal for one that makes no sense."""
    where, parameters = ["1"], []
    for name, text in query.items():
        column, _, bound = name.rpartition("_")
        value: Any = text
        if name == "outcome":
            where.append("outcome = ?")
            value = OUTCOMES.index(text) if text in OUTCOMES else len(OUTCOMES)
        elif name in NAMES:
            where.append(f"{name} IS ?")
            value = text or None
        elif name in ("task", "repeat"):
            where.append(f"{name} = ?")
            value = _number(name, text)
        elif bound in ("min", "max"):
            try:
                where.append(table.bound(column, ">=" if bound == "min" else "<="))
            except KeyError:
                raise _refused(f"There is no column {column[:80]!r} with numbers.") from None
            value = _number(name, text)
        else:
            continue
        parameters.append(value)
    return " AND ".join(where), parameters


class _Refusal(Exception):
    """An invalid request: the reason, and the status."""

    status = 400


def _refused(sentence: str, status: int = 400) -> _Refusal:
    refusal = _Refusal(sentence)
    refusal.status = status
    return refusal


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _refused(f"{name} is a number, got {text[:80]!r}.") from None


def _count(query: Any, name: str, default: int) -> int:
    text = query.get(name, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 16):
        raise _refused(f"{name} is a whole number, got {text[:80]!r}.")
    return int(text) if text else default


def _file(name: str) -> web.Response:
    path = STATIC / name
    if name not in static_files() or path.suffix not in _TYPES:
        raise _refused(f"There is no {name[:80]!r} here.", 404)
    kind = _TYPES[path.suffix]
    charset = "utf-8" if kind.startswith("text/") else None
    return web.Response(body=path.read_bytes(), content_type=kind, charset=charset, headers=_HEADERS)


def static_files() -> list[str]:
    """The names of the page's files."""
    return sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())


def _json(body: Any, status: int = 200) -> web.Response:
    return _answer(dumps(body), status)


def _answer(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json", headers=_HEADERS)


async def _update(run: RunIndex, pool: Any) -> None:
    try:
        await run.update(pool)
    except (OSError, UsageError) as error:
        logger.warning("%s cannot be read any more: %s", shown_name(run.path), error)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
