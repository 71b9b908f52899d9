"""Capacity: a discrete-event simulation of a recorded run on other engines, at another concurrency."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal, get_args

from gym_llm.evaluation.recorded_load import EngineSpeed, RecordedEpisode, Recording, turn_loads

Routing = Literal["group", "least", "random"]
"""A request's server: that of its group unless it is crowded, the least loaded one, or any."""

_SLACK = 8  # as `gym_llm.engines.routing`


@dataclass(frozen=True, slots=True)
class Forecast:
    """The figures of a simulated run.

    Attributes:
        concurrency: Episodes at once.
        engines: Number of servers.
        episodes: Episodes played.
        seconds: The whole run.
        episodes_per_second: Throughput.
        tokens_per_second: Generated tokens.
        engine_seconds: Mean time that an episode waits for the engine.
        slowdown: Of that, how many times longer than with an idle engine.
        busiest: The largest number of requests at once on one server.
    """

    concurrency: int
    engines: int
    episodes: int
    seconds: float
    episodes_per_second: float
    tokens_per_second: float
    engine_seconds: float
    slowdown: float
    busiest: int


class _Server:
    """A server that answers all of its requests at once, the slower the more there are.

    `progress` is the work done on each request since the beginning. A request that came at progress p with work w is
    answered at progress p + w, so arrivals and departures only change the rate of all.
    """

    def __init__(self, speed: EngineSpeed) -> None:
        self.speed = speed
        self.queue: list[tuple[float, int]] = []
        self.progress = self.time = 0.0
        self.version = self.busiest = 0

    def advance(self, now: float) -> None:
        self.progress += (now - self.time) / self.speed.slowdown(len(self.queue))
        self.time = now

    def next_end(self) -> float:
        return self.time + max(0.0, self.queue[0][0] - self.progress) * self.speed.slowdown(len(self.queue))


def work_of(recording: Recording, speed: EngineSpeed, engines: int = 1) -> list[list[float]]:
    """Return the seconds of each recorded turn on an idle engine."""
    return [
        [engine / speed.slowdown(load / engines) for (engine, _), load in zip(episode.turns, loads, strict=True)]
        for episode, loads in zip(recording.episodes, turn_loads(recording), strict=True)
    ]


def forecast(
    recording: Recording,
    speed: EngineSpeed,
    *,
    concurrency: int,
    engines: int = 1,
    recorded_engines: int = 1,
    routing: Routing = "group",
    group_size: int | None = None,
    episodes: int | None = None,
    nodes: int = 1,
    seed: int = 0,
) -> Forecast:
    """Play a recording again on virtual engines.

    Args:
        recording: What is played: the times of the environment as recorded, those of the engine by its load.
        speed: Of one server; see `gym_llm.evaluation.recorded_load.fit_speed`.
        concurrency: Episodes at once.
        engines: Number of servers.
        recorded_engines: Number of servers behind the recording.
        routing: How requests find their server.
        group_size: Episodes of a task; None as recorded.
        episodes: Number of episodes; None for the recorded number. Recorded ones are played again and again.
        nodes: Number of event loops that play them. The CPU time of all episodes is shared by these.
        seed: Of the random routing.

    Raises:
        ValueError: If a number is below 1, or the routing is unknown.
    """
    if min(concurrency, engines, recorded_engines, group_size or 1, episodes or 1, nodes) < 1:
        raise ValueError("concurrency, engines, group_size, episodes and nodes are 1 or more.")
    if routing not in get_args(Routing):
        raise ValueError(f"routing is one of {', '.join(get_args(Routing))}; got {routing!r}.")
    jobs, groups, works = _jobs(recording, work_of(recording, speed, recorded_engines), group_size, episodes)
    servers = [_Server(speed) for _ in range(engines)]
    rng, number = random.Random(seed), count()
    homes: dict[int, int] = {}
    chosen: dict[int, int] = {}
    events: list[tuple[float, int, int, int, int]] = []  # time, tie, server or -1, version or episode, turn
    waiting, waited, last, turns = deque(range(len(jobs))), 0.0, 0.0, [0] * len(jobs)
    asked = [0.0] * len(jobs)

    def home(job: int) -> int:
        if routing == "random":
            return rng.randrange(engines)
        least = min(range(engines), key=lambda n: len(servers[n].queue))
        if routing == "least":
            return least
        if job in chosen:
            return chosen[job]
        mine = homes.get(groups[job], least)
        if len(servers[mine].queue) > 1.25 * len(servers[least].queue) + _SLACK:
            mine = least
        homes[groups[job]] = chosen[job] = mine
        return mine

    def begin(at: float) -> None:
        job = waiting.popleft()
        heapq.heappush(events, (at + jobs[job].before, next(number), -1, job, 0))

    def schedule(place: int) -> None:
        server = servers[place]
        server.version += 1
        if server.queue:
            heapq.heappush(events, (server.next_end(), next(number), place, server.version, 0))

    for _ in range(min(concurrency, len(jobs))):
        begin(0.0)
    while events:
        now, _, place, name, _ = heapq.heappop(events)
        if place < 0:  # an episode asks
            job, place = name, home(name)
            server = servers[place]
            server.advance(now)
            heapq.heappush(server.queue, (server.progress + works[job][turns[job]], job))
            server.busiest = max(server.busiest, len(server.queue))
            asked[job] = now
            schedule(place)
            continue
        server = servers[place]
        if name != server.version:
            continue  # others came or went since
        server.advance(now)
        _, job = heapq.heappop(server.queue)
        schedule(place)
        waited += now - asked[job]
        after = now + jobs[job].turns[turns[job]][1]
        turns[job] += 1
        if turns[job] < len(jobs[job].turns):
            heapq.heappush(events, (after, next(number), -1, job, 0))
        elif waiting:
            begin(after)
        last = max(last, after)
    computing = recording.cpu_seconds * len(jobs) / nodes  # an event loop does one thing at a time
    seconds = max(last, computing, 1e-9)
    idle = sum(map(sum, works))
    return Forecast(
        concurrency=concurrency,
        engines=engines,
        episodes=len(jobs),
        seconds=seconds,
        episodes_per_second=len(jobs) / seconds,
        tokens_per_second=sum(job.output_tokens for job in jobs) / seconds,
        engine_seconds=waited / len(jobs),
        slowdown=waited / idle if idle else 1.0,
        busiest=max(server.busiest for server in servers),
    )


def _jobs(
    recording: Recording, works: Sequence[list[float]], group_size: int | None, episodes: int | None
) -> tuple[list[RecordedEpisode], list[int], list[list[float]]]:
    """The episodes to play in their order, the group of each, and the work of its turns."""
    there = len(recording.episodes)
    total = episodes or there
    places = [n % there for n in range(total)]
    if group_size is None:
        groups = [recording.episodes[place].order[0] + (n // there) * 10**9 for n, place in enumerate(places)]
    else:
        groups = [n // group_size for n in range(total)]
    return [recording.episodes[place] for place in places], groups, [works[place] for place in places]
