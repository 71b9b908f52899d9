"""slime's samples, over HTTP from a server that speaks as SGLang's does, by slime's documented types.

slime is on no package index. The contract is written down here, as github.com/THUDM/slime has it at commit
624b824a898ab0ec1fcb4d373004c7f3852bf515: `Sample` in slime/utils/types.py, `post` in slime/utils/http_utils.py,
`GenerateState` and the payload of `/generate` in slime/rollout/sglang_rollout.py, and the rewards of
`_post_process_rewards` in slime/ray/rollout.py. With SLIME_SOURCE, a checkout's path, `Sample` is the real one.
"""

from __future__ import annotations

import asyncio
import base64
import enum
import importlib
import json
import math
import os
import re
import runpy
import subprocess
import sys
import types
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from random_talk import ENV_ID, RandomModel, tasks, tokenizer
from testing import ROOT

from gym_llm.trainers.slime import EpisodeGenerate, post_process_rewards, to_samples

pytestmark = pytest.mark.slow

GROUP = 8
SAMPLING = {
    **{"temperature": 0.5, "top_p": 1.0, "top_k": -1, "max_new_tokens": 4096, "stop": None, "stop_token_ids": None},
    **{"skip_special_tokens": False, "no_stop_trim": True, "spaces_between_special_tokens": False},
}


@dataclass
class ContractSample:
    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: Any = ""
    tokens: list[int] = field(default_factory=list)
    response: str = ""
    response_length: int = 0
    label: Any = None
    reward: Any = None
    loss_mask: list[int] | None = None
    weight_versions: list[str] = field(default_factory=list)
    rollout_log_probs: list[float] | None = None
    rollout_routed_experts: Any = None
    teacher_log_probs: list[float] | None = None
    remove_sample: bool = False

    class Status(enum.Enum):
        PENDING = "pending"
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        ABORTED = "aborted"
        FAILED = "failed"

    status: Status = Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)
    session_id: str | None = None

    def get_reward_value(self, args: Any) -> Any:
        return self.reward


def sample_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The contract's, or slime's own if there is a checkout."""
    if not (source := os.environ.get("SLIME_SOURCE")):
        return ContractSample
    for name in ("slime", "slime.utils"):
        module = types.ModuleType(name)
        module.__path__ = [str(Path(source, *name.split(".")))]
        monkeypatch.setitem(sys.modules, name, module)
    real = importlib.import_module("slime.utils.types").Sample
    theirs = {each.name for each in fields(real)}
    assert {each.name for each in fields(ContractSample)} <= theirs
    assert {each.name for each in ContractSample.Status} == {each.name for each in real.Status}
    return real


class Router:
    """SGLang's `/generate`, and slime's modules in the places where the adapter looks for them."""

    def __init__(self, model: RandomModel) -> None:
        self.model = model
        self.state = types.SimpleNamespace(tokenizer=model.tokenizer, aborted=False)
        self.abort_after = math.inf
        self.headers: list[str | None] = []

    async def generate(self, request: web.Request) -> web.Response:
        payload = await request.json()
        self.headers.append(request.headers.get("X-SMG-Routing-Key"))
        params = payload["sampling_params"]
        assert payload["return_logprob"] is True and params["temperature"] == 0.5
        assert "stop" not in params and "logprobs" not in params
        self.abort_after -= 1
        ids, log_probs = self.model.sample(payload["input_ids"])
        kept = params["max_new_tokens"]
        entries = [[each, token, None] for each, token in zip(log_probs, ids, strict=True)][:kept]
        reason = "abort" if self.abort_after < 0 else "length" if len(ids) > kept else "stop"
        meta = {"output_token_logprobs": entries, "finish_reason": {"type": reason}, "weight_version": "7"}
        if payload.get("return_routed_experts"):
            read = [*payload["input_ids"], *ids[:kept]][:-1]
            meta["routed_experts"] = base64.b64encode(experts_of(read).tobytes()).decode()
        return web.json_response({"text": "", "meta_info": meta})

    async def post(self, url: str, payload: Any, max_retries: int = 60, headers: Any = None) -> Any:
        async with self.client.post(url, json=payload, headers=headers) as reply:
            return await reply.json()

    async def play(
        self, generate: EpisodeGenerate, samples: list[Any], options: Any = None, **kwargs: Any
    ) -> list[Any]:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/generate", self.generate)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        args = arguments(sglang_router_port=runner.addresses[0][1], **(options or {}))
        async with aiohttp.ClientSession() as self.client:
            made = await asyncio.gather(*(generate(args, one, dict(SAMPLING), **kwargs) for one in samples))
        await runner.cleanup()
        return made


def experts_of(ids: list[int]) -> Any:
    """Two experts in each of three layers for each id, as SGLang has them."""
    return np.array([[[token % 300, layer] for layer in range(3)] for token in ids], np.int32)


def arguments(**changed: Any) -> Any:
    values = {
        "sglang_router_ip": "127.0.0.1",
        "router_policy": "consistent_hashing",
        "custom_reward_post_process_path": "gym_llm.trainers.slime.post_process_rewards",
        "rollout_top_p": 1.0,
        "rollout_max_context_len": None,
        "eval_max_context_len": None,
        "reward_key": None,
        "advantage_estimator": "grpo",
        "rewards_normalization": True,
        "grpo_std_normalization": True,
    }
    return types.SimpleNamespace(**values | changed)


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Router:
    made = Router(RandomModel(tokenizer(getattr(request, "param", "pocket"))))
    state = types.SimpleNamespace(GenerateState=lambda args: made.state)
    monkeypatch.setitem(sys.modules, "slime.rollout.sglang_rollout", state)
    monkeypatch.setitem(
        sys.modules, "slime.utils.http_utils", types.SimpleNamespace(post=made.post, is_port_available=None)
    )
    for name in ("slime", "slime.utils", "slime.rollout"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    return made


def samples_of(cls: Any, count: int) -> list[Any]:
    return [
        cls(group_index=index // GROUP, index=index, prompt=f"Go {index}.", label=index, session_id=f"s{index}")
        for index in range(count)
    ]


def check(sample: Any, said: dict[Any, list[float]]) -> int:
    """The sample's ids, mask and log probabilities are what the model was asked and said; how many turns it has."""
    start = len(sample.tokens) - sample.response_length
    mask = [0] * start + sample.loss_mask
    log_probs = [0.0] * start + sample.rollout_log_probs
    edges = [place for place in range(1, len(mask) + 1) if mask[place - 1] != (mask[place] if place < len(mask) else 0)]
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        turn = tuple(sample.tokens[:first]), tuple(sample.tokens[first:last])
        assert said[turn] == log_probs[first:last]
    assert not any(each for each, one in zip(log_probs, mask, strict=True) if not one)
    return len(edges) // 2


@pytest.mark.parametrize("router", ["strips_thinking"], indirect=True)
def test_a_thousand_episodes_are_samples_for_each_segment(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = sample_class(monkeypatch)
    generate = EpisodeGenerate(ENV_ID, tasks=tasks(1000), history="template")
    made = asyncio.run(router.play(generate, samples_of(cls, 1000)))
    said = {(tuple(prompt), tuple(ids)): log_probs for prompt, ids, log_probs in router.model.turns}
    turns = 0
    for index, samples in enumerate(made):
        for sample in samples:
            assert (sample.index, sample.rollout_id, sample.group_index) == (index, index, index // GROUP)
            assert len(sample.loss_mask) == len(sample.rollout_log_probs) == sample.response_length
            if index % 7 == 6:  # whose judge is down
                assert sample.remove_sample and sample.status is cls.Status.FAILED and math.isnan(sample.reward)
                assert not any(sample.loss_mask) and "judge is down" in sample.metadata["masked"]
                continue
            assert not sample.remove_sample and sample.reward == index % 5 / 4
            assert sample.weight_versions == ["7"] * sample.metadata["turns"]
            turns += check(sample, said)
        if index % 7 != 6:
            assert samples[0].status in (cls.Status.COMPLETED, cls.Status.TRUNCATED)
    flat = [sample for group in made for sample in group]
    assert turns > 2000 and len(flat) > 2000
    assert f"s{len(made) - 1}" in router.headers

    for estimator, deviation in (("grpo", True), ("grpo", False), ("reinforce_plus_plus_baseline", True)):
        args = arguments(advantage_estimator=estimator, grpo_std_normalization=deviation)
        raw, shaped = post_process_rewards(args, flat)
        for sample, first, second in zip(flat, raw, shaped, strict=True):
            members = range(sample.group_index * GROUP, sample.group_index * GROUP + GROUP)
            rewards = [index % 5 / 4 for index in members if index % 7 != 6]
            mean, spread = np.mean(rewards), np.std(rewards, ddof=1) + 1e-6
            if sample.remove_sample:
                assert first == pytest.approx(mean) and second == 0.0
                continue
            wanted = (sample.reward - mean) / (spread if deviation and estimator == "grpo" else 1)
            assert first == sample.reward and second == pytest.approx(wanted, abs=1e-6)
    raw, shaped = post_process_rewards(arguments(advantage_estimator="ppo"), flat)
    assert all(two == (0.0 if one.remove_sample else one.reward) for one, two in zip(flat, shaped, strict=True))


def test_an_appended_history_is_one_sample_within_the_limit(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = sample_class(monkeypatch)
    monkeypatch.setitem(SAMPLING, "max_new_tokens", 80)
    made = asyncio.run(router.play(EpisodeGenerate(ENV_ID, tasks=tasks(100)), samples_of(cls, 100)))
    assert all(type(sample) is cls and sample.response_length <= 80 for sample in made)
    assert {sample.status for sample in made} == {cls.Status.COMPLETED, cls.Status.TRUNCATED, cls.Status.FAILED}
    evaluated = asyncio.run(
        router.play(EpisodeGenerate(ENV_ID, tasks=tasks(6), history="template"), samples_of(cls, 6), evaluation=True)
    )
    assert [sample.reward for sample in evaluated] == [0.0, 0.25, 0.5, 0.75, 1.0, 0.0]


@pytest.mark.parametrize("router", ["strips_thinking"], indirect=True)
def test_the_experts_of_each_id_are_replayed(router: Router) -> None:
    options = {"use_rollout_routing_replay": True, "num_layers": 3, "moe_router_topk": 2}
    generate = EpisodeGenerate(ENV_ID, tasks=tasks(30), history="template")
    made = asyncio.run(router.play(generate, samples_of(ContractSample, 30), options))
    flat = [sample for samples in made for sample in samples]
    for sample in flat:
        experts, read = sample.rollout_routed_experts, experts_of(sample.tokens[:-1])
        assert experts.dtype == np.int32 and experts.shape == (len(sample.tokens) - 1, 3, 2)
        trained = [0] * (len(sample.tokens) - sample.response_length) + sample.loss_mask
        last = max((place for place, used in enumerate(trained) if used), default=0)
        assert sample.remove_sample or ((experts[:last] == read[:last]).all() and not experts[last:].any())
    assert sum(any(sample.loss_mask) for sample in flat) > 30


def test_the_scores_of_a_teacher_are_in_a_samples_field(router: Router) -> None:
    segment = {"input_ids": [7, 8, 9], "loss_mask": [0, 1, 1], "logprobs": [0.0, -0.5, -0.25]}
    record = {"reward": 1.0, "info": {}, "error": None, "truncated": False}

    def made(**columns: Any) -> Any:
        episode: Any = {**record, "trajectory": [{**segment, **columns}]}
        return to_samples(episode, ContractSample(index=0), router.model.tokenizer)[0]

    assert made(teacher_logprobs=[0.0, -1.0, -2.0]).teacher_log_probs == [-1.0, -2.0]
    assert made().teacher_log_probs is None and made().rollout_routed_experts is None
    for name in ("ref_logprobs", "teacher_mask"):
        with pytest.raises(ValueError, match=name):
            made(**{name: [0.0, 1.0, 1.0]})


def test_what_slime_aborts_it_gets_back_as_it_was(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = sample_class(monkeypatch)
    router.abort_after = 3
    made = asyncio.run(router.play(EpisodeGenerate(ENV_ID, tasks=tasks(20)), samples_of(cls, 20)))
    aborted = [sample for sample in made if sample.status is cls.Status.ABORTED]
    assert len(aborted) > 10
    assert all(sample.reward is None and not sample.tokens and not sample.remove_sample for sample in aborted)
    router.state.aborted = True
    asked = len(router.headers)
    made = asyncio.run(router.play(EpisodeGenerate(ENV_ID, tasks=tasks(3)), samples_of(cls, 3)))
    assert all(sample.status is cls.Status.ABORTED for sample in made) and len(router.headers) == asked


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"custom_reward_post_process_path": None}, "--custom-reward-post-process-path"),
        ({"rollout_top_p": 0.9}, "--rollout-top-p"),
        ({"group_rm": True}, "--group-rm"),
    ],
)
def test_an_option_that_cannot_be_followed_is_named(router: Router, changed: dict[str, Any], message: str) -> None:
    generate = EpisodeGenerate(ENV_ID, tasks=tasks(1))
    with pytest.raises(ValueError, match=message):
        asyncio.run(generate(arguments(**changed), ContractSample(label=0, index=0), dict(SAMPLING)))
    with pytest.raises(ValueError, match="--label-key"):
        asyncio.run(generate(arguments(), ContractSample(label="0"), dict(SAMPLING)))


def test_the_examples_prompts_are_played_by_its_function(router: Router, tmp_path: Path) -> None:
    folder = ROOT / "examples" / "slime"
    script = (folder / "train.sh").read_text("utf-8")
    written = re.findall(r"python -c '(.*)'", script)[0].replace("4096", "8")
    subprocess.run([sys.executable, "-c", written], cwd=tmp_path, check=True, capture_output=True)
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text("utf-8").splitlines()]
    options = dict(re.findall(r"--([a-z-]+) ([^-\\\s]\S*)", script))
    assert options["custom-generate-function-path"] == "slime_episodes.generate"
    assert options["custom-reward-post-process-path"] == f"{post_process_rewards.__module__}.post_process_rewards"
    samples = [
        ContractSample(index=index, prompt=row[options["input-key"]], label=row[options["label-key"]])
        for index, row in enumerate(rows)
    ]
    made = asyncio.run(router.play(runpy.run_path(str(folder / "slime_episodes.py"))["generate"], samples))
    assert [sample.remove_sample for sample in made] == [False] * 8
    said = {(tuple(prompt), tuple(ids)): log_probs for prompt, ids, log_probs in router.model.turns}
    assert all(check(sample, said) for sample in made)
    start = len(made[0].tokens) - made[0].response_length
    asked = router.model.tokenizer.apply_chat_template(samples[0].prompt, tokenize=False, add_generation_prompt=True)
    assert router.model.tokenizer.decode(made[0].tokens[:start]) == asked
