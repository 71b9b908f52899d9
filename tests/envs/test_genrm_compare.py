"""GenRMCompare: pairs, aggregation, bonuses, the judge's text, and parity with NeMo Gym's functions."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import message, message_item, response

import gym_llm
from gym_llm.engines.engine import Engine
from gym_llm.envs.genrm_compare.aggregation import pairs, style_density
from gym_llm.evaluation.reverify.reverify import reverify

ENV_ID = "gym_llm/GenRMCompare-v0"
VECTORS = Path(__file__).with_name("genrm_compare.jsonl")
"""Groups that NeMo Gym's functions (07d6b0d, `genrm_compare/utils.py`) have scored: pairs, parsing, aggregation."""


class Answers(Engine):
    """Gives each repeat its answer and reasoning; None: it fails."""

    model = "answers"

    def __init__(self, answers: list[str | None], reasoning: list[str] | None = None) -> None:
        self.answers, self.reasoning = answers, reasoning or [""] * len(answers)

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        repeat = int(episode_id.split("-")[1])
        answer, thought = self.answers[repeat], self.reasoning[repeat]
        if answer is None:
            raise gym_llm.errors.EngineError("away")
        thoughts = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]}] if thought else []
        return response(*thoughts, message_item(answer))


def row(content: Any = "Well?", **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": [{"role": "user", "content": content}]}, **fields}


def compare(engine: Answers, *texts: str, task: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
    """The records of a group, of which the judge says these texts call by call."""
    judge = {"engine": "replay:", "kwargs": {"answers": list(texts)}}
    arguments = {"judge": judge, **kwargs}

    async def play() -> Any:
        size = len(engine.answers)
        options = {"tasks": [task or row()], "env_kwargs": arguments, "group_size": size, "retries": 0}
        return [group async for group in gym_llm.rollout(ENV_ID, engine, **options)]

    (group,) = asyncio.run(play())
    return group


def verdict(score_1: Any, score_2: Any, ranking: Any = 3) -> str:
    return json.dumps({"score_1": score_1, "score_2": score_2, "ranking": ranking})


def rewards(group: list[dict[str, Any]]) -> list[float | None]:
    return [record["reward"] for record in group]


@pytest.mark.parametrize("conform", [None, "nemo"])
@pytest.mark.parametrize("line", VECTORS.read_text("utf-8").splitlines())
def test_groups_are_scored_as_nemo_gyms_functions_score_them(line: str, conform: str | None) -> None:
    vector = json.loads(line)
    engine = Answers(vector["answers"], vector["reasoning"])
    group = compare(engine, *vector["judge"], conform=conform, **vector["arguments"])
    assert rewards(group) == vector["rewards"]
    assert [record["info"]["base_score"] for record in group] == vector["base"]
    for name, value in vector["metrics"].items():
        assert group[0]["info"][name] == pytest.approx(value)


def test_each_pair_is_asked_once_for_each_judge_and_its_calls_are_recorded_once() -> None:
    texts = [verdict(4, 2), verdict(5, 1), verdict(3, 3, 6)]
    group = compare(Answers(["a", "b", "c"]), *texts)
    assert rewards(group) == [(4 + 5.5) / 2, (2 + 5) / 2, (1 + 0.5) / 2]
    shown = [
        [(each["role"], each["content"]) for each in call["responses_create_params"]["input"]]
        for record in group
        for call in record["info"]["judge_evaluations"]
    ]
    question = ("user", "Well?")
    assert shown == [[question, ("response_1", one), ("response_2", other)] for one, other in ("ab", "bc", "ca")]
    assert [len(record["info"]["comparisons"]) for record in group] == [2, 2, 2]
    assert group[0]["info"]["tiebreak_usage_rate"] == pytest.approx(1 / 3)
    assert [len(pairs("all_pairs", size)) for size in (2, 5)] == [1, 10]


def test_a_masked_answer_is_not_compared() -> None:
    group = compare(Answers(["a", None, "c"]), verdict(4, 2), verdict(1, 5))
    assert rewards(group) == [4.5, None, 1.5] and group[0]["info"]["group"]["members"] == [0, 2]


def test_a_judge_that_fails_masks_the_group_and_text_without_scores_counts_as_the_middle() -> None:
    assert rewards(compare(Answers(["a", "b"]), verdict(4, 2))) == [None, None]  # it is asked for two
    assert rewards(compare(Answers(["a", "b"]), verdict(4, 2), "", "", "", "")) == [None, None]
    group = compare(Answers(["a", "b"]), verdict(4, 2), *["Hm."] * 4)
    assert rewards(group) == [3.5, 2.5] and group[0]["info"]["unread"] == 1
    group = compare(Answers(["a", "b"]), verdict(4, 2), "Hm.", verdict(2, 4), conform="nemo")
    assert rewards(group) == [4.0, 2.0] and [len(record["info"]["judge_evaluations"]) for record in group] == [1, 2]


@pytest.mark.parametrize(
    ("said", "theirs"),
    [
        (verdict(50, 1), 50.0),
        (verdict(True, 2), None),
        (verdict(float("nan"), 2), None),
        (verdict(float("inf"), 2), None),
        (verdict("9" * 5000, 2), None),
        (verdict([1], 2), None),
        ('{"score": 4}', None),
        ("[1, 2]", None),
        ("{}", None),
        ('{"score_1": ' + "[" * 50_000, None),
        ("{" * 100_000, None),
        (f"```json\n{verdict(5, 1)}\n```\nWait, that is the wrong way round.", 5.0),
        (f"{verdict(5, 1)}\nScore_1: 2", 5.0),
    ],
    ids=range(13),
)
def test_scores_out_of_range_are_unread_and_no_text_raises(said: str, theirs: float | None) -> None:
    texts = [said, verdict(3, 3, 3.5)]
    group = compare(Answers(["a", "b"]), *texts, judge_retries=0, num_judges_per_comparison=1)
    assert rewards(group) == [3.0, 3.0] and group[0]["info"]["unread"] == 1
    group = compare(Answers(["a", "b"]), *texts, judge_retries=0, conform="nemo")
    assert group[0]["reward"] == (3.0 if theirs is None else (theirs + 3.0) / 2)


@pytest.mark.parametrize(
    "last", [verdict(1, 5)[:-1] + ",}", verdict(1, 5).replace('"', "'"), verdict(1, 5) + ", not {}"]
)
def test_the_last_scores_that_are_meant_count_as_badly_as_they_are_written(last: str) -> None:
    assert rewards(compare(Answers(["a", "b"]), f"```json\n{verdict(5, 1)}\n```\nNo:\n{last}", verdict(3, 3, 3.5))) == [
        2,
        4,
    ]


def test_principles_typed_content_and_other_models_prompts() -> None:
    task = row([{"type": "input_text", "text": "Typed?"}], principle="Be brief.")
    both = verdict(3, 3), verdict(3, 3)

    def first(**kwargs: Any) -> list[dict[str, Any]]:
        group = compare(Answers(["<think>secret</think>a", "b\ud800"]), *both, task=task, **kwargs)
        return group[0]["info"]["judge_evaluations"][0]["responses_create_params"]["input"]

    assert [(each["role"], each["content"]) for each in first(use_principle=True)] == [
        ("user", "Typed?"),
        ("principle", "Be brief."),
        ("response_1", "a"),
        ("response_2", "b"),
    ]
    assert first(conform="nemo")[0]["content"] == ""
    system, user = first(roles=False, use_principle=True)
    assert "Be brief." in system["content"] and '{"score_1": S' in system["content"]
    assert "user: Typed?" in user["content"] and "<|response 2|>\nb\n" in user["content"]


def test_an_answer_alone_gets_the_default_and_asks_nobody() -> None:
    env = gym.make(ENV_ID, judge={"engine": "replay:", "kwargs": {"answers": []}}, default_score=2.5)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(message("Hello"))
    assert (reward, terminated, info["group"], info["judge_evaluations"]) == (2.5, True, {"size": 1}, [])


def test_style_counts_marks_and_letters_of_chinese_only_as_nemo_gym_does() -> None:
    assert style_density("答案是河流") == 0.0 and style_density("答案是河流", conform=True) == 1.0
    assert style_density("# a\n1. b\n- c 🙂 **d** __e__\n```\n# no\n```") == 6 / 26
    assert style_density("\n" * 200_000 + "`" * 100_000 + "*" * 100_000) < 1.0  # and in linear time


def test_arguments_are_checked() -> None:
    for wrong in ({"comparison_strategy": "random"}, {"top_percentile": 2.0}, {"answer_bonus": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            gym.make(ENV_ID, judge="constant:x", **wrong)


def test_a_file_is_scored_again(tmp_path: Path) -> None:
    said = verdict(4, 2)
    file = tmp_path / "a.jsonl"
    with gym_llm.Run(
        ENV_ID, Answers(["a", "b"]), tasks=[row()], repeats=2, env_kwargs={"judge": f"constant:{said}"}, output=file
    ) as run:
        run.play()
    assert reverify(file, ENV_ID, env_kwargs={"judge": f"constant:{said}"}).changes == []
    report = reverify(file, ENV_ID, env_kwargs={"judge": f"constant:{verdict(2, 5)}"})
    assert [change.new for change in report.changes] == [3.5, 3.5]
