"""A thousand random episodes through AReaL 1.0.4's own groups, checks and batches; run by tests/downstream."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import gymnasium
import random_talk
from areal.api.cli_args import GRPOConfig, parse_cli_args, to_structured_cfg
from areal.api.engine_api import InferenceEngine
from areal.api.io_struct import ModelResponse
from areal.infra.remote_inf_engine import GroupedRolloutWorkflow
from areal.infra.workflow_executor import check_trajectory_format
from areal.utils import logging
from areal.utils.data import concat_padded_tensors
from omegaconf import OmegaConf

from gym_llm.trainers.areal import EpisodeWorkflow
from gym_llm.trainers.shared.token_rows import token_rows

TASKS, GROUP = 300, 2
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "areal" / "grpo.yaml"


class RandomServer(InferenceEngine):
    """Says random things, each token with another version of the weights than the one before."""

    def __init__(self, tokenizer):
        self.model = random_talk.RandomModel(tokenizer)

    @property
    def initialized(self):
        return True

    async def agenerate(self, req):
        assert req.gconfig.temperature == 1.0 and req.gconfig.n_samples == 1
        await asyncio.sleep(0)
        sampled, log_probs = self.model.sample(req.input_ids)
        versions = [(token + position) % 5 for position, token in enumerate(sampled)]
        reason = "stop" if sampled[-1] == self.model.tokenizer.eos_token_id else "length"
        return ModelResponse(list(req.input_ids), sampled, log_probs, versions, reason)


def example_config() -> GRPOConfig:
    """The example's, read with AReaL's own classes."""
    config, _ = parse_cli_args(["--config", str(EXAMPLE)])
    return OmegaConf.to_object(to_structured_cfg(config, config_cls=GRPOConfig))


class Talk(random_talk.RandomTalk):
    """Counts what is made of it."""

    made = 0

    def __init__(self, **kwargs):
        type(self).made += 1
        super().__init__(**kwargs)


async def a_workflow_for_each_row(engine, gconfig) -> int:
    """As AReaL makes them of their name: how many environments there are."""
    gymnasium.register(id="tests/CountedTalk-v0", entry_point=Talk, kwargs={"max_turns": 6})
    arguments = {"tasks": random_talk.tasks(3), "env_kwargs": {}}
    rows = [{"task_index": number % 3} for number in range(30)]
    for row in rows:
        arguments = json.loads(json.dumps(arguments))  # others of the same value, as by remote calls
        workflow = EpisodeWorkflow("tests/CountedTalk-v0", gconfig, str(random_talk.POCKET), **arguments)
        await workflow.arun_episode(engine, row)
    return Talk.made


async def constrained(engine, gconfig) -> None:
    """A task's text.format, which AReaL cannot follow, masks the episode."""
    (task,) = random_talk.tasks(1)
    task["responses_create_params"]["text"] = {"format": {"type": "json_object"}}
    workflow = EpisodeWorkflow(random_talk.ENV_ID, gconfig, random_talk.tokenizer(), tasks=[task])
    before = len(engine.model.turns)
    assert await workflow.arun_episode(engine, {"task_index": 0}) is None
    assert len(engine.model.turns) == before


async def play_groups(workflow, engine):
    """What AReaL makes of each row's group."""
    grouped = GroupedRolloutWorkflow(workflow, GROUP, logging.getLogger("groups"))
    return await asyncio.gather(*[grouped.arun_episode(engine, row) for row in workflow.dataset()])


def check(history: str, template: str, seen: Counter) -> None:
    """Every group, and all of them as one batch, has what the records have."""
    truth = [token_rows(record) for record in random_talk.play(TASKS, template=template, history=history)]
    tokenizer = random_talk.tokenizer(template)
    engine = RandomServer(tokenizer)
    gconfig = example_config().gconfig.new(max_tokens=100_000)
    tasks = random_talk.tasks(TASKS)
    workflow = EpisodeWorkflow(random_talk.ENV_ID, gconfig, tokenizer, tasks=tasks, history=history)
    groups = asyncio.run(play_groups(workflow, engine))
    versions = {}
    for prompt, sampled, _ in engine.model.turns:
        versions[tuple(prompt)] = [(token + position) % 5 for position, token in enumerate(sampled)]
    wanted = []
    for rows, group in zip(truth, groups, strict=True):
        seen["episodes"] += GROUP
        if rows[0].is_masked:
            assert group is None
            seen["masked"] += GROUP
            continue
        assert check_trajectory_format(group, batch_size=len(rows) * GROUP)
        wanted += rows * GROUP
    batch = concat_padded_tensors([group for group in groups if group is not None])
    for number, row in enumerate(wanted):
        kept = batch["attention_mask"][number].bool()
        assert kept.sum() == len(row.input_ids)
        assert batch["input_ids"][number][kept].tolist() == row.input_ids
        assert batch["loss_mask"][number][kept].tolist() == row.loss_mask
        assert batch["logprobs"][number][kept].tolist() == row.logprobs
        assert not batch["loss_mask"][number][~kept].any()
        assert batch["rewards"][number].item() == row.reward
        of_row = batch["versions"][number][kept].tolist()
        assert of_row == _versions(row, versions)
        seen["sampled"] += sum(version >= 0 for version in of_row)
    assert len(batch["input_ids"]) == len(wanted)
    seen["segments"] += len(wanted)


def _versions(row, versions) -> list[int]:
    """Those of the turns that the server noted: where a run of sampled ids begins, a turn does."""
    of_row, position = [], 0
    while position < len(row.input_ids):
        turn = versions[tuple(row.input_ids[:position])] if row.loss_mask[position] else [-1]
        of_row += turn
        position += len(turn)
    return of_row


if __name__ == "__main__":
    counts: Counter = Counter()
    server, gconfig = RandomServer(random_talk.tokenizer()), example_config().gconfig.new(max_tokens=100_000)
    assert asyncio.run(a_workflow_for_each_row(server, gconfig)) <= 4
    asyncio.run(constrained(server, gconfig))
    check("template", "strips_thinking", counts)
    assert counts["segments"] > counts["episodes"]
    check("append", "pocket", counts)
    print(json.dumps(counts))
