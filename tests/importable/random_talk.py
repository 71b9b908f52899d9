"""Random episodes for trainers' adapters: tools, users who answer, several segments, masked ones; and the truth.

Importable by other trainers' environments too, where there is no pytest.
"""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import gymnasium

import gym_llm
from gym_llm.core.tools import tool
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.engines import Capabilities, WeightSync
from gym_llm.errors import JudgeError
from gym_llm.trainers.shared.trainer_engine import Sampled, TrainerEngine
from gym_llm.types import Rollout

ENV_ID = "tests/RandomTalk-v0"
POCKET = str(resources.files("gym_llm.engines.pocket") / "model")
_TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
_WORDS = [
    " the",
    " answer",
    " is",
    " 4",
    " 42",
    "é",
    "日本",
    "😀",
    "{",
    '"',
    "\\",
    "\n",
    " <think>",
    "</think>",
    "|>",
    "x",
]


class RandomTalk(VerifierEnv):
    """A user and a tool that say anything; every seventh task has a judge that is down, and is masked."""

    def setup(self, task: Any) -> random.Random:
        """The episode's random numbers: those of its task."""
        return random.Random(task.number)

    @tool
    def look(self, state: random.Random, place: str) -> str:
        """Look at a place.

        Args:
            place: Where to look.
        """
        return words(state, 6)

    def user_turn(self, task: Any, episode: Any) -> list[dict[str, Any]] | None:
        """A user's message, or the end."""
        return None if episode.state.random() < 0.3 else [{"role": "user", "content": words(episode.state, 8)}]

    def verify(self, task: Any, episode: Any) -> float:
        """One of five rewards; or a judge that failed."""
        if task.number % 7 == 6:
            raise JudgeError("The judge is down.")
        return task.number % 5 / 4


def tasks(count: int) -> list[dict[str, Any]]:
    """Rows of so many tasks."""
    return [
        {"responses_create_params": {"input": [{"role": "user", "content": f"Go {number}."}]}, "number": number}
        for number in range(count)
    ]


if ENV_ID not in gymnasium.registry:
    gymnasium.register(id=ENV_ID, entry_point="random_talk:RandomTalk", kwargs={"max_turns": 6})


def words(rng: random.Random, most: int) -> str:
    """A few words, or none."""
    return "".join(rng.choices(_WORDS, k=rng.randint(0, most)))


def tokenizer(template: str = "pocket") -> Any:
    """The pocket model's tokenizer, with its template or one of tests/templates."""
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(POCKET)
    if template != "pocket":
        loaded.chat_template = (_TEMPLATES / f"{template}.jinja").read_text("utf-8")
    return loaded


@dataclass
class RandomModel:
    """Samples turns at random, some of them calls, some cut off, some in another tokenisation than the tokenizer's.

    A turn depends on its prompt alone, so that whoever asks, in whatever order, is told the same.

    Attributes:
        turns: What it was asked and said: prompt ids, sampled ids and log probabilities, of each turn.
    """

    tokenizer: Any
    turns: list[tuple[list[int], list[int], list[float]]] = field(default_factory=list)

    def sample(self, prompt: list[int]) -> tuple[list[int], list[float]]:
        """Sampled ids and their log probabilities; noted in `turns`."""
        rng = random.Random(hash(tuple(prompt)))
        text = f"<think>\n{words(rng, 5)}\n</think>\n\n" if rng.random() < 0.5 else ""
        text += "x" + words(rng, 6)
        if rng.random() < 0.5:
            text += '\n<tool_call>\n{"name": "look", "arguments": {"place": "here"}}\n</tool_call>'
        cuts = sorted(rng.choices(range(len(text)), k=3))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        encode = self.tokenizer.backend_tokenizer.encode
        sampled = [token for piece in pieces for token in encode(piece, add_special_tokens=False).ids]
        if rng.random() < 0.9:
            sampled.append(self.tokenizer.eos_token_id)
        log_probs = [-math.ldexp(rng.getrandbits(20), -20) for _ in sampled]  # the same in float32
        self.turns.append((list(prompt), list(sampled), list(log_probs)))
        return sampled, log_probs

    async def __call__(self, prompt: list[int], arguments: dict[str, Any], episode_id: str) -> Sampled:
        """As `gym_llm.trainers.shared.trainer_engine.Generate`."""
        return Sampled(*self.sample(prompt))


class RandomEngine(TrainerEngine, WeightSync):
    """A `RandomModel` that a spec can name; new weights change nothing of what it says."""

    capabilities = Capabilities(token_ids=True, tools=True, weights=True)

    def __init__(self, *, history: Any = "append") -> None:
        loaded = tokenizer()
        super().__init__(RandomModel(loaded), loaded, history=history)

    async def update_weights(self, weights: Any) -> None:
        """They are looked at, as an engine would."""
        assert sum(1 for _ in weights) > 10


def play(count: int, *, template: str = "strips_thinking", history: Any = "template") -> list[Rollout]:
    """Records of random episodes of so many tasks, sorted; with this template many have several segments."""
    loaded = tokenizer(template)
    engine = TrainerEngine(RandomModel(loaded), loaded, history=history)

    async def all_of_them() -> list[Rollout]:
        stream = gym_llm.rollout(ENV_ID, engine, tasks=tasks(count), retries=0)
        return [record async for record in stream]

    return sorted(asyncio.run(all_of_them()), key=lambda record: tuple(record["rollout_id"].values()))
