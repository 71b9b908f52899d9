"""Groups of episodes as Atropos' scored_data: rows that are added for masked episodes and several segments."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from gym_llm.trainers.atropos import AtroposServer, scored_data


def episode(reward: float | None, segments: int = 1) -> Any:
    trajectory = [
        {"input_ids": [7, number, 9], "loss_mask": [0, 1, 1], "logprobs": [0.0, -0.5, -0.25]}
        for number in range(segments)
    ]
    return {"reward": reward, "trajectory": trajectory}


def test_a_whole_group_of_single_segments_is_as_it_is() -> None:
    group = scored_data([episode(1.0), episode(0.0)])
    assert group == {
        "tokens": [[7, 0, 9]] * 2,
        "masks": [[-100, 0, 9]] * 2,
        "scores": [1.0, 0.0],
        "inference_logprobs": [[1.0, -0.5, -0.25]] * 2,
        "overrides": None,
        "generation_params": None,
    }


def test_nothing_is_learned_from_a_masked_group() -> None:
    assert scored_data([episode(None), {"reward": 1.0, "trajectory": []}]) is None
    with pytest.raises(ValueError, match="one record or more"):
        scored_data([])


def test_mean_and_deviation_are_those_of_the_scored_episodes() -> None:
    rng = random.Random(0)
    sizes = set()
    for _ in range(500):
        rewards = [rng.choice([None, 0.0, 0.25, 1.0, 3.0]) for _ in range(8)]
        if not any(reward is not None for reward in rewards):
            continue
        segments = [rng.choice([1, 1, 1, 2, 5]) for _ in rewards]
        group = scored_data([episode(*each) for each in zip(rewards, segments, strict=True)], pad_token_id=3)
        assert group is not None
        scored = [reward for reward in rewards if reward is not None]
        rows = sum(count for reward, count in zip(rewards, segments, strict=True) if reward is not None)
        assert np.isclose(np.mean(group["scores"]), np.mean(scored), atol=1e-9)
        assert np.isclose(np.std(group["scores"]), np.std(scored), atol=1e-9)
        size = len(group["tokens"])
        assert all(len(group[name]) == size for name in ("masks", "scores", "inference_logprobs"))
        assert group["masks"][rows:] == [[-100, -100]] * (size - rows)
        overrides = group["overrides"] or [{}] * size
        assert overrides == [{}] * rows + [{"set_advantage_to_zero": True}] * (size - rows)
        sizes.add(size)
    assert sizes <= {8, 16, 32, 64, 128} and len(sizes) > 2


@pytest.mark.parametrize(("batch_size", "error"), [(12, ValueError), (None, ConnectionError)])
def test_an_environment_that_cannot_begin_is_taken_off_the_server_again(
    batch_size: int | None, error: type[Exception]
) -> None:
    gone: list[Any] = []

    async def register(request: web.Request) -> web.Response:
        return web.json_response({"status": "success", "env_id": 3})

    async def info(request: web.Request) -> web.Response:
        if batch_size is None:
            raise web.HTTPInternalServerError
        return web.json_response({"batch_size": batch_size, "max_token_len": 100})

    async def disconnect(request: web.Request) -> web.Response:
        gone.append(await request.json())
        return web.json_response({"status": "success"})

    async def enter() -> None:
        app = web.Application()
        app.router.add_post("/register-env", register)
        app.router.add_get("/info", info)
        app.router.add_post("/disconnect-env", disconnect)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            with pytest.raises(error):
                async with AtroposServer(f"http://127.0.0.1:{runner.addresses[0][1]}", "quiz", group_size=8):
                    pass
        finally:
            await runner.cleanup()

    asyncio.run(enter())
    assert gone == [{"env_id": 3}]
