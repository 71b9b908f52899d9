"""Routing of requests to equal servers: the server of the episode, else the least loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from yarl import URL

REMEMBERED_EPISODES = 131_072
"""Homes kept before the oldest is forgotten; several times more than the episodes one process runs at a time."""


@dataclass(slots=True, eq=False)
class Server:
    """A base URL and the state of the server behind it.

    Attributes:
        endpoint: URL of the requests, below `base_url`.
        in_flight: Number of requests being answered.
        failures: Number of requests without an answer, or with a server error.
        resting: The server failed recently, and new episodes use the others (`gym_llm.engines.health`): a server that
            fails at once would always be the least loaded.
        on_trial: The server missed a deadline and seems to answer again. It gets one new episode at a time until it has
            answered a request.
    """

    base_url: URL
    endpoint: URL
    in_flight: int = 0
    failures: int = 0
    resting: bool = False
    on_trial: bool = False


class Router:
    """Least-loaded routing with episode stickiness (the turns of an episode share a prefix, which the server cached).

    >>> a, b = (Server(URL(f"http://{name}"), URL(f"http://{name}/chat")) for name in "ab")
    >>> router = Router([a, b])
    >>> a.in_flight = 3
    >>> router.pick("episode") is b
    True
    >>> b.in_flight = 9
    >>> router.pick("episode") is b, router.pick("other") is a
    (True, True)
    """

    def __init__(self, servers: Sequence[Server]) -> None:
        self.servers = list(servers)
        self._homes: dict[str, Server] = {}

    def pick(self, episode_id: str) -> Server:
        """The server for an episode's next request; "" for a request that belongs to no episode."""
        if len(self.servers) == 1:
            return self.servers[0]
        home = self._homes.pop(episode_id, None)
        if home is None or (home.resting and not all(server.resting for server in self.servers)):
            home = min(self.servers, key=_load)
        if episode_id:
            self._homes[episode_id] = home  # last in the dict: the first is the one unused for longest
            if len(self._homes) > REMEMBERED_EPISODES:
                del self._homes[next(iter(self._homes))]
        return home

    def leave(self, episode_id: str) -> None:
        """Have an episode choose anew at its next `pick`."""
        self._homes.pop(episode_id, None)


def _load(server: Server) -> tuple[bool, int]:
    return server.resting or (server.on_trial and server.in_flight > 0), server.in_flight


def base_url(text: str) -> URL:
    """Return a text as a base URL.

    Raises:
        ValueError: If the text is not a base URL. The message does not repeat a URL that may hold a password.
    """
    text = text.strip()
    try:
        url = URL(text.rstrip("/"))
    except ValueError:
        raise ValueError("A base URL is not a URL; expected one like http://localhost:8000/v1.") from None
    if url.user is not None or url.password is not None:
        raise ValueError("A base URL holds a user name or password, which ends up in logs: give api_key= instead.")
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"A base URL looks like http://localhost:8000/v1, got {text!r}.")
    if url.query_string or url.fragment:
        raise ValueError(f"A base URL has no query or fragment; leave out what follows {url.origin()}{url.path}.")
    return url
