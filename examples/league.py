"""A league: checkpoints of a policy that play each other, rated, and drawn as opponents by their ratings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gym_llm.errors import DataError
from gym_llm.stats.ratings import Rating, bradley_terry, scores_of, win_probability
from gym_llm.types import Rollout

POLICY = "policy"
"""The name of the policy that is being trained."""


class League:
    """Members with the engines that play them, the results of their games, and their ratings.

    ```python
    league = League.load("runs/league.json")
    league.add("step 100", "transformers:runs/step-100")
    name = league.draw()                          # an opponent about as strong as the policy
    records = collect(ENV, engine, env_kwargs={"opponents": {"o": league.members[name]}})
    league.report(records)
    league.save("runs/league.json")
    ```

    Members never change, so their results stay true. The policy does: `report` forgets its oldest games. A league that
    is loaded goes on where the saved one stopped: it also has its draws.

    Args:
        members: Engine specs by name.
        memory: How many of the policy's latest games count for its rating.
        seed: Of the draws.

    Attributes:
        members: Engine specs by name.
        results: Triples (player, other player, score of the first from 0 to 1).
    """

    def __init__(self, members: Mapping[str, str] | None = None, *, memory: int = 1000, seed: int = 0) -> None:
        if memory < 1:
            raise ValueError(f"memory is a number of games, 1 or more; got {memory!r}.")
        self.members: dict[str, str] = {}
        self.results: list[tuple[str, str, float]] = []
        self._memory = memory
        self._random = np.random.default_rng(seed)
        for name, spec in (members or {}).items():
            self.add(name, spec)

    def add(self, name: str, spec: str) -> None:
        """Add a member. A run that goes on from an older checkpoint may add it again.

        Args:
            name: Its name.
            spec: The engine that plays it: `transformers:FOLDER`, `random`, `http://HOST/v1`.

        Raises:
            ValueError: If the name or the engine is taken: a member is what its engine's spec names.
        """
        if self.members.get(name) == spec:
            return
        if name == POLICY or name in self.members or spec in self.members.values():
            raise ValueError(f"The league has a member {name!r} already, or another one that {spec!r} plays.")
        self.members[name] = spec

    def report(self, records: list[Rollout]) -> None:
        """Count the games of these records: each pair of seats with different players is a result by their rewards.

        Masked episodes do not count, nor do seats whose engine belongs to no member.
        """
        names = {spec: name for name, spec in self.members.items()} | {POLICY: POLICY}
        for record in records:
            if record["reward"] is None or (seats := record.get("seats")) is None:
                continue
            players = [(names.get(seat["player"]), seat["reward"]) for seat in seats.values()]
            known = [(name, reward) for name, reward in players if name is not None]
            for (one, mine), (other, theirs) in combinations(known, 2):
                if one != other:
                    self.results.append((one, other, scores_of([mine, theirs])[0]))
        own = [place for place, result in enumerate(self.results) if POLICY in result[:2]]
        forgotten = set(own[: -self._memory])
        self.results = [result for place, result in enumerate(self.results) if place not in forgotten]

    def ratings(self) -> list[Rating]:
        """Return the ratings of all who have played, the best first; see `gym_llm.stats.ratings.bradley_terry`."""
        return bradley_terry(self.results)

    def draw(self, by: Literal["close", "strong", "uniform"] = "close", *, share: float = 0.1) -> str:
        """Draw a member as an opponent of the policy.

        Args:
            by: `"close"` prefers members whose result is open: weights p (1 - p), where p is the policy's expected
                score. `"strong"` prefers those who win: (1 - p)². Both are from Vinyals et al. 2019, "Grandmaster level
                in StarCraft II". `"uniform"` draws all alike.
            share: The part that is drawn uniformly in any case: ratings can be wrong. From 0 to 1.

        Raises:
            ValueError: If the league has no members, or an argument is invalid.
        """
        if not self.members:
            raise ValueError("The league has no members: add one.")
        if by not in ("close", "strong", "uniform") or not 0 <= share <= 1:
            raise ValueError(f'by is "close", "strong" or "uniform", and share from 0 to 1; got {by!r}, {share!r}.')
        values = {rating.name: rating.value for rating in self.ratings()}
        mine = values.get(POLICY, 0.0)
        expected = np.array([win_probability(mine, values.get(name, mine)) for name in self.members])
        weights = {"close": expected * (1 - expected), "strong": (1 - expected) ** 2}.get(by, np.ones_like(expected))
        total = weights.sum()
        even = np.full(len(expected), 1 / len(expected))
        chances = share * even + (1 - share) * (weights / total if total > 0 else even)
        return list(self.members)[int(self._random.choice(len(expected), p=chances))]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the league into a JSON file; what was there stays whole until the new one is."""
        draws = self._random.bit_generator.state
        state = {"memory": self._memory, "members": self.members, "results": self.results, "draws": draws}
        beside = Path(f"{os.fspath(path)}.new")
        beside.write_text(json.dumps(state))
        beside.replace(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> League:
        """Read a league from a file that `save` has written; a new one if there is no file.

        Raises:
            DataError: If the file is not a league's.
        """
        try:
            state: Any = json.loads(Path(path).read_bytes())
        except FileNotFoundError:
            return cls()
        except ValueError as error:
            raise DataError(f"{path} is not a league: {error}") from None
        try:
            league = cls(state["members"], memory=state["memory"])
            league.results = [(str(one), str(other), float(score)) for one, other, score in state["results"]]
            bradley_terry(league.results)
            league._random.bit_generator.state = state["draws"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{path} is not a league: {error!r}") from None
        return league
