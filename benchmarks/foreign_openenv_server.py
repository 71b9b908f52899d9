"""A counter as a server of OpenEnv's own package, for `foreign_parity.py`: `python foreign_openenv_server.py PORT`."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Amount(Action):
    """How much to add."""

    amount: int


class Total(Observation):
    """The total so far."""

    count: int = 0


class Counter(Environment):
    """Reach exactly 5; `reset` pays for a seed that can be divided by 3."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Total:
        """Begin at the seed's remainder."""
        self.count = (seed or 0) % 4
        return Total(count=self.count, reward=0.5 if (seed or 0) % 3 == 0 else None)

    def step(self, action: Amount, timeout_s: float | None = None, **kwargs: Any) -> Total:  # type: ignore[override]
        """Add."""
        self.count += action.amount
        return Total(count=self.count, done=self.count >= 5, reward=1.0 if self.count == 5 else -0.1)

    @property
    def state(self) -> State:
        """Nothing more."""
        return State()


if __name__ == "__main__":
    app = create_fastapi_app(Counter, Amount, Total, max_concurrent_envs=2_048)
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
