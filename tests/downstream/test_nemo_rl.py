"""What NeMo RL reads of us, as written down from its repository: NVIDIA-NeMo/RL at commit 7ea279a (2026-08-22).

NeMo RL is not on the package index. `nemo_rl/environments/nemo_gym.py` (`_postprocess_nemo_gym_to_nemo_rl_result`,
`validate_reward_components_match_scalar`), `nemo_rl/experience/rollouts.py` (`_extract_mask_sample_flags`,
`run_multi_turn_rollout`, `calculate_rewards`), `nemo_rl/environments/interfaces.py` (`EnvironmentReturn`) and
`nemo_rl/data/interfaces.py` (`DatumSpec`) are the contract.
"""

from __future__ import annotations

import copy
import runpy
from statistics import fmean
from typing import Any

import pytest
import random_talk
import torch
from testing import ROOT

from gym_llm.trainers.nemo_rl import TextEnvironment, nemo_gym_result, nemo_gym_results, nemo_rl_data
from gym_llm.trainers.shared.trainer_tasks import TrainedEnv

pytestmark = pytest.mark.slow

PADDING = 0
RETURN_FIELDS = ("observations", "metadata", "next_stop_strings", "rewards", "terminateds", "answers")
DATUM_FIELDS = {"message_log", "length", "extra_env_info", "loss_multiplier", "idx", "task_name"}


def message_log(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What NeMo RL makes of a result: it takes the tokens out of the items, and wants each prompt to go on."""
    log: list[dict[str, Any]] = []
    seen: list[int] = []
    for item in result["response"]["output"]:
        if not item.get("generation_token_ids"):
            continue
        prompt, sampled = item.pop("prompt_token_ids"), item.pop("generation_token_ids")
        log_probs = item.pop("generation_log_probs")
        assert prompt[: len(seen)] == seen, "NeMo RL asserts that every prompt goes on from what came before"
        log.append({"role": "user", "token_ids": torch.tensor(prompt[len(seen) :])})
        log.append({"role": "assistant", "token_ids": torch.tensor(sampled), "logprobs": torch.tensor(log_probs)})
        seen = [*prompt, *sampled]
    assert log, "NeMo RL raises if there is no generation"
    return log


def flat(log: list[dict[str, Any]]) -> tuple[list[int], list[int], list[float]]:
    """Ids, the mask of what the model sampled, log probabilities: 0 for what it read."""
    ids, mask, log_probs = [], [], []
    for message in log:
        count = len(message["token_ids"])
        ids += message["token_ids"].tolist()
        mask += [int(message["role"] == "assistant")] * count
        log_probs += message["logprobs"].tolist() if "logprobs" in message else [0.0] * count
    return ids, mask, log_probs


@pytest.mark.parametrize(("template", "history"), [("pocket", "append"), ("strips_thinking", "template")])
def test_a_thousand_results_are_the_records(template: str, history: str) -> None:
    records = random_talk.play(1000, template=template, history=history)
    for number, record in enumerate(records):  # groups of four, some of whose members are masked
        record["rollout_id"] = {"task_index": number // 4, "repeat_index": number % 4}
    before = copy.deepcopy(records)
    results = nemo_gym_results(records, padding=PADDING)
    masked = torch.tensor([bool((result.get("instance_config") or {}).get("mask_sample")) for result in results])
    several = 0
    for record, result, is_masked in zip(records, results, masked.tolist(), strict=True):
        segments = record["trajectory"] or []
        several += len(segments) > 1
        ids, mask, log_probs = flat(message_log(result))
        assert (ids, mask, log_probs) == tuple(segments[0][name] for name in ("input_ids", "loss_mask", "logprobs"))
        assert is_masked == result["mask_sample"] == (record["reward"] is None or len(segments) > 1)
        assert (result["failure_reason"] is None) == (not is_masked)
        assert isinstance(result["reward"], float) and (is_masked or result["reward"] == record["reward"])
        assert result["responses_create_params"]["input"]
    assert len(results) == 1000 and masked.sum() > 100
    assert several > 300 if history == "template" else several == 0
    for number in range(250):
        group = slice(4 * number, 4 * number + 4)
        known = [each["reward"] for each, out in zip(results[group], masked[group], strict=True) if not out]
        if known:
            assert fmean(each["reward"] for each in results[group]) == pytest.approx(fmean(known), abs=1e-9)
    assert records == before  # NeMo RL takes tokens out of what it is given


def test_an_episode_that_sampled_nothing_is_one_padding_token_out_of_the_loss() -> None:
    record = random_talk.play(1)[0]
    record["response"]["output"], record["trajectory"] = [], []
    result = nemo_gym_result(record, padding=7, masked_reward=0.5)
    assert flat(message_log(result)) == ([7, 7], [0, 1], [0.0, 0.0])
    assert result["mask_sample"] and result["reward"] == 0.5 and result["failure_reason"] == "Nothing was sampled."


def test_components_are_told_where_they_add_up_to_the_reward() -> None:
    record = random_talk.play(3)[2]
    assert record["reward"] == 0.5 and "reward_components" not in nemo_gym_result(record, padding=PADDING)
    record["info"]["reward_components"] = {"right": 0.2, "short": 0.3}
    assert nemo_gym_result(record, padding=PADDING)["reward_components"] == {"right": 0.2, "short": 0.3}
    record["info"]["reward_components"] = {"right": 1.0, "short": 0.3}  # weighted, say: NeMo RL would raise
    assert "reward_components" not in nemo_gym_result(record, padding=PADDING)


def roll_out(data: list[dict[str, Any]], environment: TextEnvironment, model: Any, tokenizer: Any) -> torch.Tensor:
    """NeMo RL's multi-turn loop, as far as an environment sees it; the sum of each episode's rewards."""
    rewards, active = torch.zeros(len(data)), list(range(len(data)))
    while active:
        for index in active:
            log = data[index]["message_log"]
            sampled, _ = model.sample([token for message in log for token in message["token_ids"].tolist()])
            text = tokenizer.decode(sampled, skip_special_tokens=True)
            log.append({"role": "assistant", "content": text, "token_ids": torch.tensor(sampled)})
        logs = [[{key: m[key] for key in ("role", "content")} for m in data[index]["message_log"]] for index in active]
        step = environment.step(logs, [data[index]["extra_env_info"] for index in active])
        assert step._fields == RETURN_FIELDS and all(len(each) == len(active) for each in step[:5])
        rewards[active] += step.rewards
        for index, observation, metadata in zip(active, step.observations, step.metadata, strict=True):
            ids = tokenizer(observation["content"], return_tensors="pt", add_special_tokens=False).input_ids[0]
            data[index]["message_log"].append({**observation, "token_ids": ids.to(torch.int64)})
            data[index]["extra_env_info"] = metadata
        active = [index for index, is_over in zip(active, step.terminateds.tolist(), strict=True) if not is_over]
    return rewards


def test_nemo_rls_own_loop_plays_episodes_of_text() -> None:
    tokenizer = random_talk.tokenizer()
    tasks = [task for task in random_talk.tasks(300) if task["number"] % 7 != 6]
    data = nemo_rl_data(TrainedEnv(random_talk.ENV_ID, tasks=tasks), tokenizer, "talk")
    assert all(
        set(datum) == DATUM_FIELDS and len(datum["message_log"][0]["token_ids"]) == datum["length"] for datum in data
    )
    environment = TextEnvironment(random_talk.ENV_ID, tokenizer, tasks=tasks)
    rewards = roll_out(data, environment, random_talk.RandomModel(tokenizer), tokenizer)
    environment.shutdown()
    assert rewards.tolist() == [task["number"] % 5 / 4 for task in tasks]
    read = ["".join(m["content"] for m in datum["message_log"] if m["role"] == "environment") for datum in data]
    assert sum("<tool_response>" in text for text in read) > 100
    start = tokenizer.apply_chat_template(
        [{"role": "user", "content": "?"}], tokenize=False, add_generation_prompt=True
    )
    begin = start.rpartition("?")[2]
    observations = [m["content"] for datum in data for m in datum["message_log"] if m["role"] == "environment"]
    assert all(text == "" or text.endswith(begin[len(tokenizer.eos_token) :]) for text in observations)


def test_beyond_the_most_open_the_oldest_episode_is_closed() -> None:
    tokenizer = random_talk.tokenizer()
    environment = TextEnvironment(random_talk.ENV_ID, tokenizer, tasks=random_talk.tasks(6), most_open=1)
    call = '<tool_call>\n{"name": "look", "arguments": {"place": "here"}}\n</tool_call>'
    log = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": call}]
    (first,) = environment.step([log], [{"task_index": 0}]).metadata
    environment.step([log], [{"task_index": 1}])
    with pytest.raises(RuntimeError, match="More than 1 episodes were open"):
        environment.step([log], [first])
    environment.shutdown()


def test_the_example_makes_its_data_and_environment() -> None:
    example = runpy.run_path(str(ROOT / "examples" / "nemo_rl" / "train_nemo_rl.py"))
    tokenizer = random_talk.tokenizer()
    train, held_out = example["data"](tokenizer, 12, 4)
    assert len(train) == 12 and len(held_out) == 4
    environment = TextEnvironment(example["ENV_ID"], tokenizer)
    rewards = roll_out(train, environment, random_talk.RandomModel(tokenizer), tokenizer)
    environment.shutdown()
    assert all(0 <= reward <= 1 for reward in rewards.tolist())
