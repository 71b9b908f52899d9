"""The experts of a mixture, from a server's answer to a trainer's row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from aiohttp import web
from gymnasium.error import InvalidAction
from testing import POCKET, in_loop, row, serving

import gym_llm
from gym_llm.engines.http import HTTPEngine
from gym_llm.protocols.chat.completions import chat_to_response, response_to_chat
from gym_llm.records.record import check_record
from gym_llm.records.token_spans import with_copies, without_copies
from gym_llm.tokens.routed_experts import pack_experts, unpack_experts
from gym_llm.tokens.segments import tokens_of
from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.utils.json_codec import dumps, loads

TASKS = [row("Is it so?", follow_ups=["And now?"], expected_answer="yes")]


def experts_of(ids: list[int]) -> str:
    """As vLLM: two experts in each of three layers, for all ids but the last."""
    return pack_experts([[[token % 9, layer] for layer in range(3)] for token in ids[:-1]])


async def careful(episode: Any) -> None:
    """An agent that asks the model and nobody else."""
    request = episode.request
    while request is not None:
        request = await episode.step(await episode.respond(request))


async def played(api: Any, *, with_experts: bool = True, **settings: Any) -> tuple[Any, list[Any]]:
    """An episode of two turns, and what the server was asked."""
    asked: list[Any] = []

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": POCKET, "max_model_len": 2000}]})

    async def completions(request: web.Request) -> web.Response:
        body = await request.json()
        asked.append(body)
        prompt = body.get("prompt") or list(range(10 * len(body["messages"])))
        sampled = [400 + len(asked), 2]
        entries = [{"token": str(token), "logprob": -0.5, "bytes": None, "top_logprobs": []} for token in sampled]
        is_chat = "messages" in body
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "token_ids": sampled,
            **({"message": {"role": "assistant", "content": "yes"}} if is_chat else {"text": "yes"}),
            "logprobs": {"content": entries} if is_chat else {"token_logprobs": [-0.5, -0.5], "tokens": ["a", "b"]},
            **({"routed_experts": experts_of(prompt + sampled)} if with_experts else {}),
        }
        return web.json_response({"id": "x", "model": POCKET, "prompt_token_ids": prompt, "choices": [choice]})

    routes = {"/v1/models": models, "/v1/completions": completions, "/v1/chat/completions": completions}
    options: dict[str, Any] = {"tokenizer": POCKET} if api == "completions" else {"token_ids": True}
    async with serving(routes) as url, HTTPEngine(f"{url}/v1", api=api, model=POCKET, **options) as engine:
        (record,) = [each async for each in gym_llm.rollout("gym_llm/FollowUp-v0", engine, tasks=TASKS, **settings)]
    assert record["error"] is None, record["error"]
    return check_record(with_copies(loads(dumps(without_copies(record))))), asked


@pytest.mark.parametrize("agent", [None, careful])
@pytest.mark.parametrize("api", ["completions", "chat"])
@in_loop
async def test_the_experts_of_a_segments_last_turn_are_in_its_row(api: Any, agent: Any) -> None:
    record, asked = await played(api, agent=agent)
    rows = token_rows(record)
    assert len(asked) == 2 and len(rows) in (1, 2)
    for found in rows:
        assert found.routed_experts == experts_of(found.input_ids)
        assert unpack_experts(found.routed_experts).shape == (len(found.input_ids) - 1, 3, 2)
    assert "routed_experts" not in str(asked) + str(record["response"]["output"])  # neither sent back nor kept twice


@in_loop
async def test_without_experts_nothing_is_added() -> None:
    record, _ = await played("completions", with_experts=False)
    assert all(found.routed_experts is None for found in token_rows(record))
    assert "routed_experts" not in str(record)


def test_our_server_gives_them_as_vllm_does() -> None:
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}
    tokens = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
    response = {"id": "resp_1", "output": [{**item, **tokens, "routed_experts": experts_of([1, 2, 3])}]}
    chat: Any = response_to_chat({**response, "status": "completed", "usage": None})  # type: ignore[typeddict-item]
    assert chat["choices"][0]["routed_experts"] == experts_of([1, 2, 3])
    (turn,) = tokens_of(chat_to_response(chat)["output"])
    assert turn.experts == experts_of([1, 2, 3])
    with pytest.raises(InvalidAction, match="is a text"):
        tokens_of([{**item, **tokens, "routed_experts": [[1]]}])


def test_packed_experts_are_small_and_others_are_refused() -> None:
    for most, dtype in ((255, "uint8"), (256, "uint16")):
        array = unpack_experts(pack_experts(np.full((4, 2, 8), most, dtype=np.int64)))
        assert array.dtype == dtype and (array == most).all()
    for wrong in ("", "@", "AAAA", pack_experts(np.zeros((2, 2), dtype=int))):
        with pytest.raises(ValueError, match="Invalid routed experts"):
            unpack_experts(wrong)
