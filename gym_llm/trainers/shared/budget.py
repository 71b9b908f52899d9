"""A limit to an episode's tokens, as trainers have it: the length of the whole response, not of a turn."""

from __future__ import annotations

from typing import Any

from gym_llm.engines import Engine
from gym_llm.engines.engine_response import overflow_response, text_response
from gym_llm.types import Item, Request, ResponseDict

_REMEMBERED = 65_536


class WithinBudget(Engine):
    """An engine that truncates an episode when it has `budget` tokens after its first prompt.

    Args:
        engine: The engine that answers; it must report token ids and append to the history (`history="append"`).
        budget: Maximum number of tokens, sampled and read, after the first prompt.
        tokenizer: Decodes a turn that is cut because the text before it was longer than known.
    """

    def __init__(self, engine: Engine, budget: int, tokenizer: Any) -> None:
        self.model = engine.model
        self._engine = engine
        self._budget = budget
        self._tokenizer = tokenizer
        self._first_prompts: dict[str, int] = {}

    async def start(self) -> None:
        """Start the engine within."""
        await self._engine.start()
        self.model = self._engine.model

    async def aclose(self) -> None:
        """Close the engine within."""
        await self._engine.aclose()

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer within what is left of the budget; see `Engine.respond`."""
        earlier_turns = _sampled_turns(request["input"])
        budget = self._budget
        if earlier_turns:
            first, last = len(earlier_turns[0]["prompt_token_ids"]), earlier_turns[-1]
            first = min(first, self._first_prompts.get(episode_id, first))
            budget += first - len(last["prompt_token_ids"]) - len(last["generation_token_ids"])
        if budget < 1:
            return overflow_response(self.model)
        limit = request.get("max_output_tokens")
        limited: Request = {**request, "max_output_tokens": budget if limit is None else min(limit, budget)}
        response = await self._engine.respond(limited, episode_id=episode_id)
        turns = _sampled_turns(response["output"])
        if turns and not earlier_turns:
            self._remember(episode_id, len(turns[0]["prompt_token_ids"]))
        if not (earlier_turns and turns):
            return response
        # How many tokens a tool's output or a user has is known only now that the engine has put them in its prompt.
        prompt, sampled = turns[0]["prompt_token_ids"], turns[0]["generation_token_ids"]
        budget = self._budget + first - len(prompt)
        if budget < 1:
            return overflow_response(self.model, len(prompt))
        if len(sampled) <= budget:
            return response
        return text_response(
            self._tokenizer.decode(sampled[:budget], skip_special_tokens=False, clean_up_tokenization_spaces=False),
            tokens=(prompt, sampled[:budget], turns[0]["generation_log_probs"][:budget]),
            model=self.model,
            incomplete="max_output_tokens",
        )

    def _remember(self, episode_id: str, first_prompt: int) -> None:
        """Note how long an episode's first prompt was: of an agent's history only the latest turn has its tokens."""
        self._first_prompts.pop(episode_id, None)
        self._first_prompts[episode_id] = first_prompt  # last in the dict: the first is the one noted longest ago
        if len(self._first_prompts) > _REMEMBERED:
            del self._first_prompts[next(iter(self._first_prompts))]


def _sampled_turns(items: list[Item]) -> list[Item]:
    """The items that carry the tokens of a model's turn."""
    return [item for item in items if item.get("generation_token_ids") is not None]
