"""Routing of requests to equal servers: the server of the episode, else that of its group, else the least loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from yarl import URL

from gym_llm.engines.around import conversation_of

REMEMBERED_EPISODES = 131_072
"""Homes kept before the oldest is forgotten; several times more than the episodes one process runs at a time."""


GROUP_SLACK = 8
"""Requests that the server of a group may have in flight beyond 1.25 times those of the least loaded server."""


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
        warned_at: When a warning about the server's rate limit was logged, in seconds of the monotonic clock.
    """

    base_url: URL
    endpoint: URL
    in_flight: int = 0
    failures: int = 0
    resting: bool = False
    on_trial: bool = False
    warned_at: float = float("-inf")


class Router:
    """Least-loaded routing with affinity: a server has the prefix of what it answered in its cache.

    All turns of an episode go to one server. The episodes of a task (a group) share their first prompt. They go to one
    server, too, unless it has many more requests in flight than the least loaded one. With `is_shared`
    the server of a group follows from its name, so that clients in several processes choose the same one.

    Args:
        servers: One or more.
        is_shared: Whether other processes ask the same servers for episodes of the same groups.

    >>> a, b = (Server(URL(f"http://{name}"), URL(f"http://{name}/chat")) for name in "ab")
    >>> router = Router([a, b])
    >>> a.in_flight = 3
    >>> router.pick("episode") is b
    True
    >>> b.in_flight = 9
    >>> router.pick("episode") is b, router.pick("other") is a
    (True, True)
    >>> a.in_flight = b.in_flight = 0
    >>> len({router.pick(f"7-{repeat}") for repeat in range(8)})  # the episodes of task 7
    1
    """

    def __init__(self, servers: Sequence[Server], *, is_shared: bool = False) -> None:
        self.servers = list(servers)
        self._is_shared = is_shared
        self._homes: dict[str, Server] = {}
        self._groups: dict[str, Server] = {}

    def pick(self, episode_id: str) -> Server:
        """The server for an episode's next request; "" for a request that belongs to no episode."""
        if len(self.servers) == 1:
            return self.servers[0]
        home = self._homes.pop(episode_id, None)
        if home is None or (home.resting and not all(server.resting for server in self.servers)):
            home = self._new_home(episode_id)
        if episode_id:
            _remember(self._homes, episode_id, home)
        return home

    def _new_home(self, episode_id: str) -> Server:
        least = min(self.servers, key=_load)
        if not episode_id:
            return least
        group = conversation_of(episode_id).rpartition("-")[0] or episode_id
        home = self._groups.pop(group, None)
        if home is None and self._is_shared:
            awake = [server for server in self.servers if not server.resting] or self.servers
            number = int(group) if group.isdecimal() else crc32(group.encode())
            home = awake[number % len(awake)]
        busy = 1.25 * least.in_flight + GROUP_SLACK
        if home is None or _load(home)[0] > _load(least)[0] or home.in_flight > busy:
            home = least
        _remember(self._groups, group, home)
        return home

    def leave(self, episode_id: str) -> None:
        """Have an episode choose anew at its next `pick`."""
        self._homes.pop(episode_id, None)


def _remember(homes: dict[str, Server], name: str, home: Server) -> None:
    homes[name] = home  # last in the dict: the first is the one unused for longest
    if len(homes) > REMEMBERED_EPISODES:
        del homes[next(iter(homes))]


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
