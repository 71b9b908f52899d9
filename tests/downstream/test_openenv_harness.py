"""TRL's HarnessRolloutWorker, with OpenEnv's own classes, trains on what a capture server kept."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict

import numpy as np
import pytest
from peers import in_peer
from testing import POCKET

from gym_llm import make_engine
from gym_llm.agents.capture import CaptureServer

pytestmark = pytest.mark.slow


@pytest.fixture
def server():
    """A capture server in a thread of its own, and all sessions that it has had."""
    ready, ended = threading.Event(), threading.Event()
    served: list[CaptureServer] = []

    def serve():
        async def run():
            engine = make_engine("pocket", parsers=["reasoning", "tool_calls"])
            async with CaptureServer(engine) as started:
                served.append(started)
                ready.set()
                await asyncio.to_thread(ended.wait)

        asyncio.run(run())

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(120)
    yield served[0]
    ended.set()
    thread.join(60)


def test_every_sample_of_the_worker_is_what_the_engine_sampled(server):
    samples = in_peer("openenv", "openenv_harness.py", server.url, POCKET, timeout=400)["samples"]
    assert len(samples) >= 24
    calls = defaultdict(list)  # two may have sampled the same, in batches of other sizes
    for session in server.sessions.values():
        for sample in session.graph.samples:
            calls[tuple(sample.prompt_ids), tuple(sample.sampled_ids)].append(np.float32(sample.log_probs.tolist()))
    counted = 0
    for sample in samples:
        ids, mask, log_probs = sample["input_ids"], sample["mask"], sample["log_probs"]
        start = mask.index(1)
        while start is not None:
            end = next((n for n in range(start, len(mask)) if not mask[n]), len(mask))
            known = calls[tuple(ids[:start]), tuple(ids[start:end])]
            assert any(np.array_equal(np.float32(log_probs[start:end]), numbers) for numbers in known)
            counted += 1
            start = next((n for n in range(end, len(mask)) if mask[n]), None)
    assert counted >= len(samples)
    assert len({sample["advantage"] for sample in samples}) > 1  # rewards are the environment's
