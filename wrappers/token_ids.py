"""TokenIdTracking: the token ids of an episode, put together for a trainer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium.error import InvalidAction
from gymnasium.utils import RecordConstructorArgs

from gym_llm.core.driver import Driver
from gym_llm.protocols.responses.actions import is_refusal, output_items
from gym_llm.types import TOKEN_FIELDS, Item

_PROMPT, _SAMPLED, _LOG_PROBS = TOKEN_FIELDS


class TokenIdTracking(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Collects the token ids of the model's turns; the last step's info has them as `trajectory`.

    `info["trajectory"]` is a list of segments, each a dict of lists of equal length:

    - `input_ids`: all ids of a stretch of the episode, prompts and samples, up to the last sampled one;
    - `loss_mask`: 1 for a sampled id, 0 for any other;
    - `logprobs`: the natural log of a sampled id's probability as the engine reported it, 0.0 for any other id.

    In an episode of which a step before the last had a reward other than 0 there is a fourth list:

    - `rewards`: each step's reward at its turn's last sampled id, 0.0 at any other. A step whose turn sampled nothing
      has no place for its own.

    A turn belongs to the segment of the turn before if its prompt begins with all ids of that turn, prompt and sample.
    Otherwise (the chat template rewrote the history, or a caller did) it begins a new segment. So an engine that
    appends gives one segment, and every segment is exactly what the model saw and said.

    The wrapper reads turns from the output items that carry their tokens (see `gym_llm.types.Item`). It works in any
    place among wrappers that leave the tokens there, as the parsers do. An engine that samples several times for one
    action puts the tokens of each time on an item of its own: each is a turn. The ids of turns without tokens appear in
    a later prompt, with mask 0, or nowhere. Without any turn with tokens the info has no `trajectory`. If such turns
    sampled no ids, it is an empty list.

    Raises:
        InvalidAction: By `step`, if a turn has not all of the three token fields, or not one log probability for each
            sampled id.

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import TokenIdTracking
        >>> row = {"responses_create_params": {"input": "2+2?"}, "expected_answer": "4"}
        >>> env = TokenIdTracking(gym.make("gym_llm/FollowUp-v0", tasks=[row]))
        >>> observation, info = env.reset(seed=0)
        >>> tokens = {"prompt_token_ids": [5, 6], "generation_token_ids": [7], "generation_log_probs": [-0.5]}
        >>> *_, info = env.step([{"type": "message", "role": "assistant", "content": "4", **tokens}])
        >>> info["trajectory"]
        [{'input_ids': [5, 6, 7], 'loss_mask': [0, 0, 1], 'logprobs': [0.0, 0.0, -0.5]}]
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self._segments: list[_Segment] | None = None
        self._rewards: list[tuple[int, int, float]] = []
        self._is_rewarded_early = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._segments = None
        self._rewards, self._is_rewarded_early = [], False
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a turn; at the episode's end the info has the trajectory."""
        turns = _tokens_of(output_items(action))
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except BaseException as error:
            if not is_refusal(error, self.unwrapped):
                self._add(turns)
            raise
        self._add(turns)
        if truncated and self._is_rewarded_early:  # by a wrapper, perhaps: the score has to be known here
            step = observation, reward, terminated, truncated, info
            observation, reward, terminated, truncated, info = Driver(self.env).score(step)
        if reward:
            self._note(float(reward), turns, terminated or truncated)
        if (terminated or truncated) and self._segments is not None:
            info = {**info, "trajectory": self._with_rewards()}
        return observation, reward, terminated, truncated, info

    @property
    def trajectory_so_far(self) -> list[dict[str, Any]] | None:
        """The trajectory of the turns until now, for an episode that fails; None if none of them has tokens."""
        return None if self._segments is None else [segment.as_dict() for segment in self._segments]

    def _add(self, turns: list[tuple[list[int], list[int], list[float]]]) -> None:
        for prompt, sampled, log_probs in turns:
            if self._segments is None:
                self._segments = []
            if not sampled:
                continue
            sample = (len(prompt), sampled, log_probs)
            if self._segments and self._segments[-1].goes_on_with(prompt):
                self._segments[-1].prompt = prompt
                self._segments[-1].samples.append(sample)
            else:
                self._segments.append(_Segment(prompt, [sample]))

    def _note(self, reward: float, turns: list[tuple[list[int], list[int], list[float]]], is_over: bool) -> None:
        self._is_rewarded_early = self._is_rewarded_early or not is_over
        if self._segments and any(sampled for _, sampled, _ in turns):
            start, sampled, _ = self._segments[-1].samples[-1]
            self._rewards.append((len(self._segments) - 1, start + len(sampled) - 1, reward))

    def _with_rewards(self) -> list[dict[str, Any]] | None:
        trajectory = self.trajectory_so_far
        if trajectory is not None and self._is_rewarded_early:
            for segment in trajectory:
                segment["rewards"] = [0.0] * len(segment["input_ids"])
            for index, position, reward in self._rewards:
                trajectory[index]["rewards"][position] = reward
        return trajectory


@dataclass(slots=True)
class _Segment:
    """Turns of which each prompt begins with everything before; holds the engine's own lists.

    Attributes:
        prompt: The last turn's.
        samples: Of each turn, the length of its prompt, the sampled ids and their log probabilities.
    """

    prompt: list[int]
    samples: list[tuple[int, list[int], list[float]]]

    def goes_on_with(self, prompt: list[int]) -> bool:
        """Whether a prompt begins with all ids so far."""
        start, sampled, _ = self.samples[-1]
        end = start + len(sampled)
        return prompt[start:end] == sampled and prompt[:start] == self.prompt

    def as_dict(self) -> dict[str, Any]:
        """The segment as a trainer takes it."""
        input_ids = self.prompt + self.samples[-1][1]
        loss_mask = [0] * len(input_ids)
        logprobs = [0.0] * len(input_ids)
        for start, sampled, log_probs in self.samples:
            end = start + len(sampled)
            loss_mask[start:end] = [1] * len(sampled)
            logprobs[start:end] = log_probs
        return {"input_ids": input_ids, "loss_mask": loss_mask, "logprobs": logprobs}


def _tokens_of(items: list[Item]) -> list[tuple[list[int], list[int], list[float]]]:
    """Prompt ids, sampled ids and log probabilities of each item that carries some, in order."""
    turns = []
    for item in items:
        prompt, sampled, log_probs = item.get(_PROMPT), item.get(_SAMPLED), item.get(_LOG_PROBS)
        if prompt is sampled is log_probs is None:
            continue
        if not (isinstance(prompt, list) and isinstance(sampled, list) and isinstance(log_probs, list)):
            raise InvalidAction(
                f"An output item has some of {', '.join(TOKEN_FIELDS)}: it has all three as lists or none."
            )
        if len(sampled) != len(log_probs):
            raise InvalidAction(
                f"An output item needs one log probability per sampled id; got {len(log_probs)} for {len(sampled)} ids."
            )
        turns.append((prompt, sampled, log_probs))
    return turns
