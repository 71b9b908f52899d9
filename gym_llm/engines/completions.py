"""`POST /v1/completions` with a prompt of token ids: exact tokens over HTTP, as vLLM serves them."""

from __future__ import annotations

from typing import Any

from gym_llm.chat.completions import FINISH_REASONS
from gym_llm.chat.requests import request_to_chat
from gym_llm.engines.token_response import log_prob_entry, token_response
from gym_llm.errors import EngineError
from gym_llm.types import Request, ResponseDict

_CHAT_ONLY = (
    *("messages", "tools", "tool_choice", "parallel_tool_calls", "logprobs", "top_logprobs", "reasoning_effort"),
    "chat_template_kwargs",
)


def completion_body(request: Request, prompt: list[int], *, context: int | None = None) -> dict[str, Any]:
    """The body, without `model`, that asks for what comes after a prompt, sampled as the request says.

    What is left of the model's `context`, if that is known, is the most that may be sampled: without it servers take 16
    for a request without a limit, and refuse one with a limit above the context.

    >>> completion_body({"input": "Hi", "max_output_tokens": 9, "temperature": 0.0}, [5, 6])["max_tokens"]
    9
    """
    body = {name: value for name, value in request_to_chat(request).items() if name not in _CHAT_ONLY}
    limit = body.pop("max_completion_tokens", None)
    limits = [limit, None if context is None else max(1, context - len(prompt))]
    if any(one is not None for one in limits):
        body["max_tokens"] = min(one for one in limits if one is not None)
    return {
        **body,
        "prompt": prompt,
        "logprobs": request.get("top_logprobs") or 0,  # 0: the sampled tokens' own
        "return_token_ids": True,
        "skip_special_tokens": False,
        "add_special_tokens": False,
    }


def completion_to_response(
    completion: dict[str, Any], *, model: str, prompt: list[int], text_log_probs: bool = False
) -> ResponseDict:
    """The response that a completion of a prompt stands for: one message, with the turn's tokens on it.

    With `text_log_probs` the text has log probabilities, too, as a request's `top_logprobs` and `include` ask.

    Raises:
        EngineError: If it is no completion, or has no token ids.
    """
    try:
        choice = completion["choices"][0]
        sampled, log_probs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("token_logprobs")
        if sampled is None or log_probs is None or len(sampled) != len(log_probs):
            raise EngineError(
                "The server gives no token ids for a completion (vLLM's `return_token_ids`): use api='chat'."
            )
        reason = FINISH_REASONS.get(choice.get("finish_reason"))
        response = token_response(
            model, choice["text"], prompt=prompt, sampled=sampled, log_probs=log_probs, incomplete=reason
        )
        if text_log_probs:
            tokens, likeliest = choice["logprobs"]["tokens"], choice["logprobs"].get("top_logprobs")
            response["output"][0]["content"][0]["logprobs"] = [
                log_prob_entry(token, log_prob, (likeliest[place] or {}).items() if likeliest else ())
                for place, (token, log_prob) in enumerate(zip(tokens, log_probs, strict=True))
            ]
        return response
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise EngineError(
            f"The server's answer is no completion ({type(error).__name__}: {error}): {completion!r:.200}"
        ) from error
