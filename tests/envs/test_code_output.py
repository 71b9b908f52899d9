"""CodeOutput: what its programs print, and when an answer says the same."""

import asyncio

import gymnasium as gym
import numpy as np
import pytest
from testing import ROOT, message, row, scored

from gym_llm.concurrency import drive
from gym_llm.data import read_jsonl
from gym_llm.envs.code_output.env import CodeOutput
from gym_llm.envs.code_output.programs import PROGRAMS, output_of, program
from gym_llm.errors import DataError, SandboxUnavailable
from gym_llm.sandbox import Sandbox

ENV = "gym_llm/CodeOutput-v0"


def test_programs_print_in_the_sandbox_what_is_expected():
    async def main():
        async with Sandbox() as sandbox:
            for kind in PROGRAMS:
                for seed in range(3):
                    code = program(np.random.default_rng(seed), (kind,), 2)
                    result = await sandbox.python(code)
                    assert result.ok and result.stdout.decode() == output_of(code), code

    try:
        asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_kind_has_many_programs_which_end_and_print_something_short(kind):
    codes = {program(np.random.default_rng(seed), (kind,), 1) for seed in range(200)}
    assert len(codes) > 190
    printed = {output_of(code) for code in codes}
    assert len(printed) > 60
    assert all(0 < len(text) < 400 and text.endswith("\n") for text in printed)


def test_the_same_seed_gives_the_same_program_and_its_output_is_right():
    env = gym.make(ENV, kinds=["dicts", "loops"], parts=3).unwrapped
    request, _ = env.reset(options={"task_index": 7})
    assert request == env.reset(options={"task_index": 7})[0] != env.reset(options={"task_index": 8})[0]
    env.reset(options={"task_index": 7})
    task = env._task
    assert task.code in request["input"][0]["content"] and task.expected_output == output_of(task.code)
    assert task.expected_output not in request["input"][0]["content"]
    _, reward, terminated, _, info = env.step(message(f"So:\n```\n{task.expected_output}```"))
    assert (reward, terminated, info["difference"]) == (1.0, True, None)


@pytest.mark.parametrize(
    ("answer", "lines", "exact"),
    [
        ("```\n 1 2\n3.0\n```", 1.0, 1.0),
        ("```text\n 1 2\n3.0\n\n```", 1.0, 1.0),
        ("It prints <answer> 1 2\n3.0\n</answer>", 1.0, 1.0),
        ("```\n1 2\n3.0\n```", 1.0, 0.0),
        ("```\n 1 2 \n3\n```", 1.0, 0.0),
        ("```\n 1 2\n3.1\n```", 0.0, 0.0),
        ("```\n 1 2\n```", 0.0, 0.0),
        ("```\n1 2\n3.0\n4\n```", 0.0, 0.0),
        ("```\n 1 2\n3.0\n```\nno\n```\n7\n```", 0.0, 0.0),
        ("<think>```\n 1 2\n3.0\n```</think>", 0.0, 0.0),
        (" 1 2\n3.0", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_an_answer_is_compared_line_by_line_or_exactly(answer, lines, exact):
    fields = {"code": "?", "expected_output": " 1 2\n3.0\n"}
    assert scored(ENV, answer, **fields)[0] == lines
    assert scored(ENV, answer, {"compare": "exact"}, **fields)[0] == exact


def test_why_an_answer_is_wrong_is_reported():
    assert scored(ENV, "?", code="?", expected_output="1")[1]["difference"] == "there is no answer"
    info = scored(ENV, "```\n2\n```", code="?", expected_output="1")[1]
    assert info["difference"] == "Wrong answer at output_line_idx=0: 2 != 1" and info["extracted_answer"] == "2"


def test_a_row_that_does_not_say_what_it_prints_is_run():
    try:
        code = "import sys\nprint(sys.stdin.read()[::-1])"
        assert scored(ENV, "```\ncba\n```", code=code, stdin="abc")[0] == 1.0
        assert scored(ENV, "```\nabc\n```", code=code, stdin="abc")[0] == 0.0
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("code", "why"), [("1 / 0", "ended with 1"), ("while True: pass", "limit of cpu"), ("exit(3)", "ended with 3")]
)
def test_a_rows_program_that_does_not_end_well_masks_its_episodes(code, why):
    env = CodeOutput(tasks=[row(code=code)], timeout_s=1.0)
    try:
        with pytest.raises(DataError, match=why):
            env.reset()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    finally:
        env.close()


def test_many_rows_are_run_at_once():
    def play(number):
        env = CodeOutput(tasks=[row(code=f"print({number})")])
        env.reset()
        reward = env.step(message(f"```\n{number}\n```"))[1]
        env.close()
        return reward

    async def main():
        return await asyncio.gather(*(drive(play, number) for number in range(20)))

    try:
        assert asyncio.run(main()) == [1.0] * 20
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def test_the_examples_print_what_they_say():
    for _, task in read_jsonl(ROOT / "envs/code_output/data/example.jsonl"):
        assert output_of(task["code"]) == task["expected_output"]


@pytest.mark.parametrize(
    "kwargs",
    [
        {"compare": "fuzzy"},
        {"kinds": []},
        {"kinds": "loops"},
        {"kinds": ["sockets"]},
        {"parts": 0},
        {"parts": True},
        {"timeout_s": -1},
        {"sandbox": "none"},
    ],
)
def test_arguments_that_make_no_sense_are_refused(kwargs):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        CodeOutput(**kwargs)
