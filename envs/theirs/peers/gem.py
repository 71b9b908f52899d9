r"""Environments of GEM: `game:GuessTheNumber-v0`, `rg:…`, `math:…`; answers stand in \boxed{}."""

from __future__ import annotations

from typing import Any

ENV_ID = "gym_llm/GEM-v0"
PACKAGES = ("gem-llm==0.1.0", "requests", "pylatexenc", "datasets")
MODULE = "gem"
FRAMEWORKS = ("gem",)
APART = True  # it pins reasoning-gym, nltk and msgspec


class Peer:
    """An environment of GEM. Each observation, with its prefix and suffix, is a message of the user.

    Args:
        env: GEM's id.
        env_kwargs: What `gem.make` takes besides; a row of a `MathEnv` has `question` and `answer` here.
        wrappers: GEM's wrappers by name, between commas: tools by tags in the text (`python_tool`). Those that join a
            chat's messages (`concat`) repeat what the model has seen.
        index: The row of a data set; None for one that the seed draws.
    """

    draws = "always"
    recording = False

    def __init__(
        self,
        env: str = "game:GuessTheNumber-v0-easy",
        env_kwargs: dict[str, Any] | None = None,
        wrappers: str = "",
        index: int | None = None,
    ) -> None:
        import gem

        self._env = _math(**env_kwargs or {}) if env == "MathEnv" else gem.make(env, **env_kwargs or {})
        self._index = index
        if index is not None:
            self._env.idx = index  # without a seed the next row is played
        if wrappers:
            from gem.wrappers.wrapper_factory import get_wrapper_fns

            for wrap in get_wrapper_fns(wrappers):
                self._env = wrap(self._env)

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin."""
        return self._turn(*self._env.reset(seed=seed if self._index is None else None))

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Act. GEM says `truncated` too where an episode ended by itself: here that is `terminated` only."""
        observation, reward, terminated, truncated, info = self._env.step(action["text"])
        turn = self._turn(observation, info)
        turn.update(reward=float(reward), terminated=bool(terminated), truncated=bool(truncated and not terminated))
        return turn

    def _turn(self, observation: Any, info: Any) -> dict[str, Any]:
        say = info.get("prefix", "") + observation + info.get("suffix", "")  # as GEM's ObservationWrapper joins them
        return {"say": say, "observation": observation}


def _math(question: Any, answer: Any) -> Any:
    from datasets import Dataset
    from gem.envs.math_env import MathEnv

    return MathEnv(dataset=Dataset.from_list([{"problem": question, "answer": answer}]), use_mp=False)


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the index of each row of a data set; None for games and tasks that are made for the seed."""
    if arguments["env"] == "MathEnv" or arguments["index"] is not None:
        return [{}]
    rows: Any = getattr(Peer(arguments["env"], arguments["env_kwargs"])._env, "dataset", None)
    return [{"index": index} for index in range(len(rows))] if hasattr(rows, "shuffle") else None


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    kwargs = dict(episode["kwargs"])
    arguments = {"env": episode["env"], "wrappers": kwargs.pop("wrappers", "")}
    if episode["env"] == "MathEnv":  # its rows are not in the record, but they were sums
        question = episode["observations"][0]
        kwargs = {"question": question, "answer": str(sum(map(int, question.rstrip("?").split("+"))))}
    return {**arguments, "env_kwargs": kwargs}, episode["seed"]
