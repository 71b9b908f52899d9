"""Groups of episodes as Atropos' scored_data, and the groups that are left out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from gym_llm.trainers.atropos import AtroposServer, scored_data


def episode(reward: float | None, segments: int = 1) -> Any:
    trajectory = [
        {"input_ids": [7, number, 9], "loss_mask": [0, 1, 1], "logprobs": [0.0, -0.5, -0.25]}
        for number in range(segments)
    ]
    return {"reward": reward, "trajectory": trajectory, "error": None if reward is not None else "It failed."}


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


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (episode(None), "is masked"),
        (episode(None, 0), "is masked"),
        (episode(1.0, 2), "2 segments"),
        (episode(1.0, 0), "0 segments"),
    ],
)
def test_a_group_without_a_row_for_each_episode_is_left_out(odd: Any, reason: str, caplog: Any) -> None:
    # A row that makes up for it would need a score that no episode has.
    assert scored_data([episode(1.0), odd, episode(0.0)]) is None
    assert reason in caplog.text and "left out" in caplog.text
    with pytest.raises(ValueError, match="one record or more"):
        scored_data([])


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
