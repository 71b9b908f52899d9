"""Tasks of Reasoning Gym as they were recorded, for `gym-llm env replay`; `gym_llm/ReasoningGym-v0` plays them."""

from __future__ import annotations

from typing import Any

PACKAGES = ("reasoning-gym==0.1.25",)
MODULE = "reasoning_gym"
FRAMEWORKS = ("reasoning_gym",)
UNREPEATABLE = dict.fromkeys(
    ("codeio", "isomorphic_strings", "polynomial_multiplication", "ransom_note"),
    "the order of a set, and so the question, differs between processes",
)


class Peer:
    """An entry of a dataset.

    Args:
        dataset: Its name.
        index: Which entry.
        size: How many entries the dataset has.
        config: Its settings; of a `composite` its `datasets`, each with `name`, `weight` and `config`.
    """

    draws = "always"
    recording = False

    def __init__(self, dataset: str, index: int = 0, size: int = 500, config: dict[str, Any] | None = None) -> None:
        self._name, self._index, self._size, self._config = dataset, index, size, config or {}

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Generate the entry."""
        import reasoning_gym
        from reasoning_gym.composite import DatasetSpec

        config = dict(self._config)
        if self._name == "composite":
            config["datasets"] = [DatasetSpec(**spec) for spec in config["datasets"]]
        self._data = reasoning_gym.create_dataset(self._name, seed=seed, size=self._size, **config)
        self._entry = self._data[self._index]
        return {"say": self._entry["question"], "observation": self._entry["question"]}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Score the answer; a scorer that raises an exception pays 0."""
        try:
            score = self._data.score_answer(action["text"], self._entry)
        except Exception:
            if self.recording:
                raise
            score = 0.0
        return {"reward": score, "terminated": True}


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    return {"dataset": episode["env"], **episode["kwargs"]}, episode["seed"]


def as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one question and its score; a scorer's exception ends the episode, too."""
    return {
        "observations": [turns[0]["observation"]],
        "rewards": [turn.get("reward") for turn in turns[1:]],
        "done": True,
    }
