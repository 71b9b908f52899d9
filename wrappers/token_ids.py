"""TokenIdTracking: the token ids of an episode, put together for a trainer."""

from __future__ import annotations

from typing import Any, SupportsFloat, cast

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from gym_llm.core.driver import Driver
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.protocols.responses.actions import is_refusal, output_items
from gym_llm.tokens.segments import Segments, tokens_of


class TokenIdTracking(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Collects the token ids of the model's turns; the last step's info has them as `trajectory`.

    `info["trajectory"]` is a list of segments, each a dict of lists of equal length:

    - `input_ids`: all ids of a stretch of the episode, prompts and samples, up to the last sampled one;
    - `loss_mask`: 1 for a sampled id, 0 for any other;
    - `logprobs`: the natural log of a sampled id's probability as the engine reported it, 0.0 for any other id.

    In an episode of which a step before the last had a reward other than 0 there is a fourth list:

    - `rewards`: each step's reward at its turn's last sampled id, 0.0 at any other. A step whose turn sampled nothing
      has no place for its own.

    In an episode of which a turn was sampled under a constraint (`gym_llm.types.CONSTRAINED`) there is another one:

    - `constrained`: 1 for an id that was sampled under a constraint, 0 for any other. Its log probability is the one
      among the tokens that the constraint allowed.

    In an episode of which a turn was sampled by weights that the engine was given (`gym_llm.types.WEIGHT_VERSIONS`)
    there is another one:

    - `weight_versions`: the version of the weights that sampled an id, 0 for any other.

    If the engine gave the experts of a mixture for a segment's last turn, the segment has a text, too:

    - `routed_experts`: the experts for all of its ids but the last; see `gym_llm.types.ROUTED_EXPERTS`.

    A turn belongs to the segment of the turn before if its prompt begins with all ids of that turn, prompt and sample.
    Otherwise (the chat template rewrote the history, or a caller did) it begins a new segment. So an engine that
    appends gives one segment, and every segment is exactly what the model saw and said.

    The wrapper reads turns from the output items that carry their tokens (see `gym_llm.types.Item`). It works in any
    place among wrappers that leave the tokens there, as the parsers do. An engine that samples several times for one
    action puts the tokens of each time on an item of its own: each is a turn. The ids of turns without tokens appear in
    a later prompt, with mask 0, or nowhere. Without any turn with tokens the info has no `trajectory`. If such turns
    sampled no ids, it is an empty list.

    An environment with several seats keeps one trajectory for each seat. The info has that of the record's seat.

    Raises:
        InvalidAction: By `step`, if a turn has not all of the three token fields, or not one log probability for each
            sampled id. Or if its versions of the weights are not those of its ids, or its experts are not a text.

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
        self._segments = Segments()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._segments = Segments()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a turn; at the episode's end the info has the trajectory."""
        turns = tokens_of(output_items(action))
        verifier = cast(VerifierEnv, self.unwrapped)
        if getattr(verifier, "agent_selection", None) is not None:  # it keeps the turns of each seat apart
            turns = []
        segments = self._segments
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except BaseException as error:
            if not is_refusal(error, verifier):
                segments.add(turns)
            raise
        segments.add(turns)
        if truncated and segments.is_rewarded_early:  # by a wrapper, perhaps: the score has to be known here
            step = observation, reward, terminated, truncated, info
            observation, reward, terminated, truncated, info = Driver(self.env).score(step)
        if reward:
            segments.pay(float(reward), turns, terminated or truncated)
        if (terminated or truncated) and (trajectory := self._trajectory(segments.trajectory())) is not None:
            info = {**info, "trajectory": trajectory}
        return observation, reward, terminated, truncated, info

    def fork_onto(self, env: gym.Env[Any, Any]) -> TokenIdTracking:
        """Return this wrapper for a fork of its environment, with the tokens so far."""
        made = TokenIdTracking(env)
        made._segments = self._segments.copy()
        return made

    @property
    def trajectory_so_far(self) -> list[dict[str, Any]] | None:
        """The trajectory of the turns until now, for an episode that fails; None if none of them has tokens."""
        return self._trajectory(self._segments.trajectory(with_rewards=False))

    def _trajectory(self, own: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
        verifier = self.unwrapped
        seats = verifier.seat_trajectories() if isinstance(verifier, VerifierEnv) else None
        return own if seats is None else next(iter(seats.values()), None)
