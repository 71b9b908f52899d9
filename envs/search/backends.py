"""Search backends: an index of local files, Google's Custom Search, or Tavily."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from gym_llm.envs.search.bm25 import Found, Index, read_documents
from gym_llm.envs.search.fetching import BadURL, bounded, fetch_page
from gym_llm.errors import InfrastructureError
from gym_llm.utils.json_codec import loads
from gym_llm.utils.secrets import add_secrets

OWN_DOCUMENTS = str(Path(__file__).with_name("data") / "documents.jsonl")
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_TRIES = 3
_SECONDS_BETWEEN = 0.5
_MOST_BYTES = 2_000_000
_RESULTS = 10


class Backend(Protocol):
    """Answers searches, and has pages."""

    async def search(self, query: str) -> list[Found]:
        """The best ten results.

        Raises:
            InfrastructureError: If the service fails.
        """

    async def page(self, url: str) -> str | None:
        """A page's text; None if it has none.

        Raises:
            BadURL: If it must not be, or cannot be fetched: the model's mistake.
        """

    async def aclose(self) -> None:
        """Let go of connections."""


class Local:
    """An index over files.

    Args:
        index: What is searched.
    """

    def __init__(self, index: Index) -> None:
        self._index = index

    async def search(self, query: str) -> list[Found]:
        """The best ten documents."""
        return self._index.search(query, _RESULTS)

    async def page(self, url: str) -> str | None:
        """A document's text."""
        return self._index.page(url)

    async def aclose(self) -> None:
        """Nothing is open."""


class _Service:
    """An HTTP service with a key from the environment."""

    name, url = "", ""
    variables: tuple[str, ...] = ()

    def __init__(self, *, url: str | None = None, allow_private: bool = False) -> None:
        missing = [name for name in self.variables if not os.environ.get(name)]
        if missing:
            raise ValueError(f"{self.name} needs the environment's {' and '.join(missing)}.")
        self._keys = [os.environ[name] for name in self.variables]
        add_secrets(set(self._keys))
        self._url = url or self.url
        self._allow_private = allow_private
        self._session: aiohttp.ClientSession | None = None

    async def page(self, url: str) -> str | None:
        """The text of a page of the web."""
        return await fetch_page(url, allow_private=self._allow_private)

    def __getstate__(self) -> dict[str, Any]:
        """Connections stay in their process."""
        return {**vars(self), "_session": None}

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask(self, method: str, path: str = "", **request: Any) -> Any:
        """The service's answer as JSON, which failed at most twice before. Its URL has keys: no message has it."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=_TIMEOUT)
        problem = ""
        for number in range(_TRIES):
            if number:
                await asyncio.sleep(_SECONDS_BETWEEN)
            try:
                async with self._session.request(method, self._url + path, **request) as response:
                    if response.status == 200:
                        return loads(await bounded(response, _MOST_BYTES))
                    problem = f"answered {response.status}"
                    if response.status not in (408, 429) and response.status < 500:
                        break
            except (aiohttp.ClientError, TimeoutError, BadURL, ValueError) as error:
                problem = f"failed ({type(error).__name__})"
        raise InfrastructureError(f"{self.name} {problem}.")


class Google(_Service):
    """Google's Custom Search: GOOGLE_API_KEY and GOOGLE_CX."""

    name, url = "Google's search", "https://www.googleapis.com/customsearch/v1"
    variables = ("GOOGLE_API_KEY", "GOOGLE_CX")

    async def search(self, query: str) -> list[Found]:
        """The first page of results."""
        key, engine = self._keys
        answer = await self._ask("GET", params={"key": key, "cx": engine, "q": query})
        return [_found(item, "title", "link", "snippet") for item in _list(answer, "items")]


class Tavily(_Service):
    """Tavily's search and pages: TAVILY_API_KEY."""

    name, url = "Tavily", "https://api.tavily.com"
    variables = ("TAVILY_API_KEY",)

    async def search(self, query: str) -> list[Found]:
        """Ten results of an advanced search."""
        body = {"query": query, "max_results": _RESULTS, "search_depth": "advanced"}
        answer = await self._ask("POST", "/search", json=body, headers=self._headers)
        return [_found(item, "title", "url", "content") for item in _list(answer, "results")]

    async def page(self, url: str) -> str | None:
        """Return the text that Tavily reads on a page."""
        answer = await self._ask("POST", "/extract", json={"urls": [url]}, headers=self._headers)
        pages = _list(answer, "results")
        text = pages[0].get("raw_content") if pages else None
        return text if isinstance(text, str) and text else None

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._keys[0]}"}


def _list(answer: Any, name: str) -> list[dict[str, Any]]:
    items = answer.get(name) if isinstance(answer, dict) else None
    return [item for item in items if isinstance(item, dict)][:_RESULTS] if isinstance(items, list) else []


def _found(item: dict[str, Any], *names: str) -> Found:
    return Found(*(str(item.get(name) or "") for name in names))


SERVICES: dict[str, type[Google] | type[Tavily]] = {"google": Google, "tavily": Tavily}


async def open_backend(spec: str, allow_private: bool) -> Backend:
    """The back end of a spec; an index is made in a thread.

    Args:
        spec: `local:PATH` (`gym_llm.envs.search.bm25.read_documents`), `google` or `tavily`.
        allow_private: Whether pages of machines that are not on the public internet may be fetched.
    """
    if spec in SERVICES:
        return SERVICES[spec](allow_private=allow_private)
    return Local(await asyncio.to_thread(lambda: Index(read_documents(spec.removeprefix("local:")))))
