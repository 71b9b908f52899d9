"""Compaction of long histories: what is sent, exact tokens at each boundary, and what the record counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest
from aiohttp import web
from testing import function_call, in_loop, message_item, response, row, serving

import gym_llm
from gym_llm import VerifierEnv, tool
from gym_llm.engines import Engine, make_engine
from gym_llm.engines.around import EngineAround
from gym_llm.engines.http import HTTPEngine
from gym_llm.errors import UsageError
from gym_llm.rollouts.history import size_of, split, summarized, trimmed, without_results
from gym_llm.rollouts.settings import RolloutSettings

TURNS = 10


class Sums(VerifierEnv):
    """Asks for one sum after the other, in many words; pays each answer."""

    def user_turn(self, task: Any, episode: Any) -> str | None:
        episode.step_reward = 0.5
        words = "Think of the sums before, and of all that was said about them. " * 3
        return f"{words}What is {episode.turn} + {episode.turn}?" if episode.turn < TURNS else None

    def verify(self, task: Any, episode: Any) -> float:
        return 1.0


class Digs(VerifierEnv):
    """Has a tool with long outputs."""

    @tool
    def dig(self, depth: int = 0) -> str:
        """Dig."""
        return f"Stone {depth}. " * 40

    def verify(self, task: Any, episode: Any) -> float:
        return 1.0


class Noting(EngineAround):
    """Notes what it was asked and what was answered; a turn that was cut off counts as finished."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.asked: list[tuple[str, Any]] = []
        self.answers: list[Any] = []

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        answer = await self.engine.respond(request, episode_id=episode_id)
        self.asked.append((episode_id, request))
        self.answers.append(answer)
        if (answer.get("incomplete_details") or {}).get("reason") == "max_output_tokens":
            answer |= {"status": "completed", "incomplete_details": None}
        return answer


class Digger(Engine):
    """Calls the tool until it is asked for the 24th time; a token is four bytes of a prompt."""

    model = "digger"

    def __init__(self, context: int | None = 2000) -> None:
        self.context = context
        self.asked: list[Any] = []

    @property
    def context_tokens(self) -> int | None:
        return self.context

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        self.asked.append(request)
        given = size_of(request["input"]) // 4
        usage = {"input_tokens": given, "output_tokens": 20, "total_tokens": given + 20}
        if request.get("tool_choice") == "none":
            return response(message_item("<think>Hm.</think>I dug, and found stones."), usage=usage)
        if given >= (self.context or 2000):
            return response(status="incomplete", incomplete_details={"reason": "context_length_exceeded"})
        said = function_call("dig", {"depth": len(self.asked)}, f"call_{len(self.asked)}")
        return response(said if len(self.asked) < 24 else message_item("Done."), usage=usage)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    gym.register("test/Sums-v0", Sums)
    gym.register("test/Digs-v0", Digs)
    yield
    gym.registry.pop("test/Sums-v0")
    gym.registry.pop("test/Digs-v0")


def sampled(trajectory: Any) -> list[tuple[int, float]]:
    """Every sampled id with its log probability, in order of the segments."""
    return [
        (token, log_prob)
        for segment in trajectory
        for token, mask, log_prob in zip(segment["input_ids"], segment["loss_mask"], segment["logprobs"], strict=True)
        if mask
    ]


@pytest.mark.parametrize("strategy", ["trim", "summary"])
def test_every_sampled_token_is_there_once_with_its_log_probability(strategy: str) -> None:
    pytest.importorskip("transformers")
    request = {"input": "What is 1 + 2?", "max_output_tokens": 24}

    async def play() -> tuple[Noting, list[Any]]:
        async with make_engine("pocket", seed=3) as pocket:
            engine = Noting(pocket)
            how = {"compact": strategy, "compact_context": 700, "concurrency": 2}
            rollouts = gym_llm.rollout(
                "test/Sums-v0", engine, tasks=[{"responses_create_params": request}], repeats=2, **how
            )
            return engine, [record async for record in rollouts]

    engine, records = in_loop(play)()
    for record in records:
        assert record["outcome"] == "scored", record["error"]
        assert record["info"]["compactions"] >= 1
        assert record["info"]["turn"] >= TURNS
        name = "{task_index}-{repeat_index}".format(**record["rollout_id"])
        calls = [n for n, (episode_id, _) in enumerate(engine.asked) if episode_id == name]
        said, lengths = [], []
        for n in calls:
            (item,) = [item for item in engine.answers[n]["output"] if "generation_token_ids" in item]
            said += list(zip(item["generation_token_ids"], item["generation_log_probs"], strict=True))
            lengths.append(len(item["prompt_token_ids"]))
            whole = item["prompt_token_ids"] + item["generation_token_ids"]
            # the model saw exactly what one of the segments says
            assert any(segment["input_ids"][: len(whole)] == whole for segment in record["trajectory"])
        assert sampled(record["trajectory"]) == said
        summaries = sum(engine.asked[n][1].get("tool_choice") == "none" for n in calls)
        assert len(calls) == record["info"]["turn"] + summaries
        assert (summaries > 0) is (strategy == "summary")
        assert max(lengths) < 700
        # the observation is whole: the record has all turns; the environment does not reply to reasoning alone
        replies = sum(item.get("role") == "user" for item in record["response"]["output"])
        assert 0 < replies < TURNS
        assert record["response"]["usage"]["output_tokens"] == len(said)
        paid = [reward for segment in record["trajectory"] for reward in segment["rewards"]]
        assert sum(paid) == record["reward"] == 0.5 * (replies + 1) + 1.0


@pytest.mark.parametrize("strategy", ["trim", "tool-results", "summary"])
def test_prompts_stay_below_the_share_and_calls_keep_their_outputs(strategy: str) -> None:
    engine = Digger()
    (record,) = gym_llm.collect(
        "test/Digs-v0", engine, tasks=[row("Dig.")], compact=strategy, env_kwargs={"max_turns": 60}, progress=False
    )
    assert (record["outcome"], record["error"]) == ("scored", None)
    assert record["info"]["compactions"] >= 1
    asked = [request for request in engine.asked if request.get("tool_choice") != "none"]
    for request in asked:
        items = request["input"]
        assert size_of(items) / 4 < 0.8 * 2000 + 300
        assert items[0] == {"role": "user", "content": "Dig."} or items[0]["content"] == "Dig."
        calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
        outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        assert calls == outputs
    if strategy == "summary":
        assert any("found stones" in str(item) and "Hm." not in str(item) for item in asked[-1]["input"])
    if strategy == "tool-results":
        assert len([item for item in asked[-1]["input"] if item.get("type") == "function_call"]) >= 20
    assert sum(item.get("type") == "function_call" for item in record["response"]["output"]) == len(asked) - 1


def test_a_prompt_that_is_too_long_after_all_is_compacted() -> None:
    engine = Digger()
    how: Any = {"compact": "trim", "compact_context": 2600, "compact_at": 0.99}
    (record,) = gym_llm.collect(
        "test/Digs-v0", engine, tasks=[row("Dig.")], env_kwargs={"max_turns": 60}, progress=False, **how
    )
    assert (record["outcome"], record["info"]["compactions"] >= 1) == ("scored", True)


def test_a_short_episode_is_left_as_it_is() -> None:
    engine = Digger(context=1_000_000)
    (record,) = gym_llm.collect(
        "test/Digs-v0", engine, tasks=[row("Dig.")], compact="trim", env_kwargs={"max_turns": 60}, progress=False
    )
    assert "compactions" not in record["info"]
    assert len(engine.asked[-1]["input"]) == len(record["response"]["output"])


def test_histories_keep_their_head_and_the_last_turn() -> None:
    head = [{"role": "system", "content": "S"}, {"role": "user", "content": "Go."}]
    turns = [
        [function_call("dig", {}, f"c{n}"), {"type": "function_call_output", "call_id": f"c{n}", "output": "x" * 200}]
        for n in range(4)
    ]
    items = [*head, *(item for turn in turns for item in turn)]
    assert split(items) == (head, turns)
    assert trimmed(items, 0.0) == [*head, *turns[-1]]
    assert trimmed([*head, *turns[0]], 0.0) is None
    noted = without_results(items, 0.0)
    assert noted is not None and [len(item.get("output", "")) > 100 for item in noted[3::2]] == [False] * 3 + [True]
    assert "200 characters" in noted[3]["output"]
    assert without_results(noted, 0.0) is None
    assert summarized(items, "All is well.")[2]["content"].endswith("All is well.")
    assert summarized(items, "All is well.")[3:] == turns[-1]


@in_loop
async def test_a_server_compacts_natively() -> None:
    bodies: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        bodies.append(body := await request.json())
        output: list[Any] = [message_item(f"Turn {len(bodies)}")]
        if len(bodies) == 4:
            output.insert(0, {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"})
        assert body["context_management"] == [{"type": "compaction", "compact_threshold": 800}]
        return web.json_response(response(*output))

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})

    how: Any = {"compact": "native", "compact_context": 1000}
    async with (
        serving({"/v1/models": models, "/v1/responses": answer}) as url,
        HTTPEngine(f"{url}/v1", api="responses") as engine,
    ):
        rollouts = gym_llm.rollout("test/Sums-v0", engine, tasks=[row("Go.")], **how)
        (record,) = [record async for record in rollouts]
    assert (record["outcome"], record["info"]["compactions"]) == ("scored", 1)
    assert len(bodies[3]["input"]) == 7
    assert [item.get("type") for item in bodies[4]["input"]] == ["compaction", "message", "message"]
    assert "sealed" in json.dumps(record["response"])


def test_what_cannot_be_done_is_refused() -> None:
    options: Any = {"tasks": [row("Dig.")], "progress": False}
    with pytest.raises(UsageError, match="native"):
        gym_llm.collect("test/Digs-v0", Digger(), compact="native", **options)
    with pytest.raises(UsageError, match="compact_context"):
        gym_llm.collect("test/Digs-v0", Digger(context=None), compact="trim", **options)
    for wrong in ({"compact": "zip"}, {"compact": "trim", "compact_at": 1.0}, {"compact": "trim", "agent": "true"}):
        with pytest.raises(ValueError, match="compact"):
            RolloutSettings(**wrong)
