"""A counter served by OpenEnv's own server, for `serve_openenv.py`; runs where OpenEnv is installed.

Arguments: the port, and how. `template`: as OpenEnv's template for environments starts its server, with what it
installs by itself. `tuned`: with uvloop, and without an access log. `adapter`: tuned, and serves our counter.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

ROOM = 20_000
PROMPT = "Add 3 to the counter."


class CounterAction(Action):
    """How much to add."""

    amount: int


class CounterObservation(Observation):
    """The total, and what to make of it."""

    prompt: str = ""
    count: int = 0


class CounterEnvironment(Environment):
    """Add to a counter; the reward is 1.0 if it stands at 3."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self.count = self.steps = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> CounterObservation:
        """Begin at 0."""
        self.count = self.steps = 0
        return CounterObservation(prompt=PROMPT, count=0)

    def step(self, action: CounterAction, timeout_s: float | None = None, **kwargs: Any) -> CounterObservation:  # type: ignore[override]
        """Add."""
        self.count += action.amount
        self.steps += 1
        return CounterObservation(prompt=PROMPT, count=self.count, done=True, reward=float(self.count == 3))

    @property
    def state(self) -> State:
        """The total."""
        return State(episode_id="counter", step_count=self.steps)


class TextAction(Action):
    """What the model says."""

    output: str


class RequestObservation(Observation):
    """What our environments show."""

    request: dict[str, Any] = {}
    info: dict[str, Any] = {}
    truncated: bool = False


class OurCounter(Environment):
    """Our counter as an environment of OpenEnv's."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        from serve_openenv import ENV_ID, TASKS

        super().__init__()
        self.env = gym.make(ENV_ID, tasks=TASKS, disable_env_checker=True)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> RequestObservation:
        """Begin an episode."""
        request, info = self.env.reset(seed=seed)
        return RequestObservation(request=request, info=info)

    def step(self, action: TextAction, timeout_s: float | None = None, **kwargs: Any) -> RequestObservation:  # type: ignore[override]
        """Take a turn."""
        content = [{"type": "output_text", "text": action.output}]
        items = [{"type": "message", "role": "assistant", "content": content}]
        request, reward, terminated, truncated, info = self.env.step(items)
        over = terminated or truncated
        return RequestObservation(request=request, info=info, truncated=truncated, done=over, reward=float(reward))

    @property
    def state(self) -> State:
        """Nothing of interest."""
        return State()


def main(port: int, how: str) -> None:
    """Serve until the process is ended."""
    if how == "adapter":
        app = create_fastapi_app(OurCounter, TextAction, RequestObservation, max_concurrent_envs=ROOM)
    else:
        app = create_fastapi_app(CounterEnvironment, CounterAction, CounterObservation, max_concurrent_envs=ROOM)
    if how == "template":
        uvicorn.run(app, port=port, loop="asyncio")  # its requirements have no uvloop
    else:
        uvicorn.run(app, port=port, loop="uvloop", access_log=False, log_level="critical", backlog=4096)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
