"""Comparing runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gym_llm.errors import UsageError
from gym_llm.evaluation.compare import Comparison, RunScores, compare_runs, read_run
from gym_llm.evaluation.compare_plots import plot_comparison
from gym_llm.evaluation.compare_report import as_markdown
from gym_llm.stats.episode_scores import EpisodeScore
from gym_llm.stats.intervals import interval
from gym_llm.stats.paired import pair


def write(path: Path, rewards: Sequence[Sequence[float | None]], **fields: Any) -> Path:
    """A rollout file with these rewards of each task's repeats."""
    question = fields.pop("question", "What is {}?")
    lines = [
        {
            "responses_create_params": {"input": question.format(task), "temperature": 1}, "expected_answer": str(task),
            "rollout_id": {"task_index": task, "repeat_index": repeat}, "env_id": "Sums-v0",
            "outcome": "masked" if reward is None else "scored", "reward": reward, "info": {"turn": 1},
            "error": "down" if reward is None else None, "error_phase": None, "schema_version": 2, **fields,
        }
        for task, row in enumerate(rewards)
        for repeat, reward in enumerate(row)
    ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def compared(folder: Path, *runs: Sequence[Sequence[float | None]], **options: Any) -> Comparison:
    paths = [write(folder / f"{letter}.jsonl", rewards) for letter, rewards in zip("abcd", runs, strict=False)]
    return compare_runs([read_run(path) for path in paths], **options)


def test_the_interval_is_that_of_the_tasks_differences(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    before = rng.binomial(1, 0.4, (40, 4)).astype(float)
    after = rng.binomial(1, 0.6, (40, 4)).astype(float)
    (found,) = compared(tmp_path, before.tolist(), after.tolist()).pairs
    expected = stats.ttest_rel(after.mean(axis=1), before.mean(axis=1)).confidence_interval(0.95)
    assert (found.difference.low, found.difference.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert found.difference.value == pytest.approx((after - before).mean(), abs=1e-12)


def test_a_masked_episode_is_in_no_difference(tmp_path: Path) -> None:
    (found,) = compared(tmp_path, [[1.0, None], [0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [None, None], [1.0, 1.0]]).pairs
    assert found.tasks == [(("", ""), 0), (("", ""), 2)]
    assert (found.only_in_baseline, found.only_in_run) == (1, 0)
    assert found.differences.tolist() == [-1.0, 0.0]


def test_flipped_tasks_are_listed_both_ways(tmp_path: Path) -> None:
    before, after = [[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    (found,) = compared(tmp_path, before, after).pairs
    assert [(flip.task_index, flip.pass_rate_before, flip.pass_rate_after) for flip in found.lost] == [(0, 0.5, 0.0)]
    assert [flip.task_index for flip in found.gained] == [1]
    assert (found.better, found.worse) == (2, 1)


def test_runs_that_do_not_differ_have_an_interval_with_a_width(tmp_path: Path) -> None:
    rewards = [[float(task % 2)] for task in range(30)]
    (found,) = compared(tmp_path, rewards, rewards).pairs
    assert found.difference.value == 0 and found.test.p_value == 1.0
    assert -0.2 < found.difference.low < 0 < found.difference.high < 0.2
    assert found.tasks_needed(0.02) is None


def test_the_power_is_scipys(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    before, after = (rng.binomial(1, rate, (200, 1)).astype(float) for rate in (0.5, 0.55))
    (found,) = compared(tmp_path, before.tolist(), after.tolist()).pairs
    needed = found.tasks_needed(0.05)
    assert needed is not None
    error = np.std(after - before, ddof=1) / np.sqrt(needed)
    assert stats.norm.sf(stats.norm.ppf(0.975) - 0.05 / error) == pytest.approx(0.8, abs=0.001)
    assert found.detectable() == pytest.approx(0.05 * np.sqrt(needed / 200), rel=0.01)


def test_tasks_that_are_not_the_same_are_refused(tmp_path: Path) -> None:
    first = read_run(write(tmp_path / "a.jsonl", [[1.0], [0.0]]))
    second = read_run(write(tmp_path / "b.jsonl", [[1.0], [1.0]], question="How much is {}?"))
    with pytest.raises(UsageError, match=r"2 of 2 tasks differ .* the first is 0"):
        compare_runs([first, second])
    assert compare_runs([first, second], check_tasks=False).pairs[0].better == 1


def test_the_sampling_is_not_the_task(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", [[1.0]])
    second = tmp_path / "b.jsonl"
    second.write_text(first.read_text().replace('"temperature": 1', '"temperature": 0'))
    assert compare_runs([read_run(first), read_run(second)]).pairs[0].better == 0


def test_runs_without_a_common_task_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no scored task in common"):
        compared(tmp_path, [[1.0]], [[None]])


def test_tasks_are_matched_within_their_dataset(tmp_path: Path) -> None:
    runs = []
    for name, rewards in (("a", ([[1.0]], [[0.0]])), ("b", ([[0.0]], [[0.0]]))):
        for dataset, each in zip(("easy", "hard"), rewards, strict=True):
            write(tmp_path / name / "records" / f"{dataset}.jsonl", each, dataset=dataset)
        runs.append(read_run(tmp_path / name))
    (found,) = compare_runs(runs).pairs
    assert [(dataset, index) for (_, dataset), index in found.tasks] == [("easy", 0), ("hard", 0)]
    assert {part[1]: each.value for part, each in found.parts.items()} == {"easy": -1.0, "hard": 0.0}


def test_one_dataset_by_another_name_is_the_same(tmp_path: Path) -> None:
    first = read_run(write(tmp_path / "a.jsonl", [[1.0]]))
    second = read_run(write(tmp_path / "b.jsonl", [[0.0]], dataset="sums/test"))
    assert compare_runs([first, second]).pairs[0].worse == 1


def test_a_folder_with_several_engines_says_to_name_files(tmp_path: Path) -> None:
    for engine in ("a", "b"):
        write(tmp_path / "records" / f"{engine}.jsonl", [[1.0]])
    with pytest.raises(UsageError, match="name a file"):
        read_run(tmp_path)


def test_several_runs_are_corrected_for_being_several(tmp_path: Path) -> None:
    base = [[0.0]] * 8
    comparison = compared(tmp_path, base, [[1.0]] * 8, [[1.0]] * 7 + [[0.0]], [[1.0]] + [[0.0]] * 7)
    assert [each.test.p_value for each in comparison.pairs] == pytest.approx([2 / 256, 2 / 128, 1.0])
    assert [each.p_value_holm for each in comparison.pairs] == pytest.approx([6 / 256, 4 / 128, 1.0])


def test_a_gate_judges_what_was_measured(tmp_path: Path) -> None:
    comparison = compared(tmp_path, [[1.0]] * 10, [[1.0]] * 9 + [[0.0]])
    assert comparison.failures(below=0.9, worse_by=0.1) == []
    assert comparison.failures(below=0.95) == ["b: the mean reward is 0.9000; expected 0.95 or more."]
    (sentence,) = comparison.failures(worse_by=0.05)
    assert sentence == "b: the mean reward is 0.1000 below that of a (p = 1); allowed are 0.05."
    assert compared(tmp_path, [[None]]).failures(below=0.1) == [
        "a: the mean reward is unknown, as no episode has one; expected 0.1 or more."
    ]


def test_a_report_is_markdown_that_names_cannot_break(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{name}.jsonl", rows) for name, rows in (("a", [[0.0]] * 3), ("<b>|\x1b[2J", [[1.0]] * 3))
    ]
    text = as_markdown(compare_runs([read_run(path) for path in paths]), flips=2)
    assert "\\<b\\>\\|\ufffd[2J" in text and "\x1b" not in text
    assert "## 3 tasks gained" in text and "… and 1 more; --json has all." in text


def test_a_comparison_is_json_also_where_little_can_be_said(tmp_path: Path) -> None:
    for runs in ([[[1.0]], [[0.0]]], [[[-1e150], [1e150]], [[1e150], [-1e150]]], [[[0.5]] * 3, [[0.25]] * 3]):
        found = compared(tmp_path, *runs).as_dict()
        assert json.loads(json.dumps(found, allow_nan=False)) == found
    with pytest.raises(UsageError, match="so large that floats cannot hold their differences"):
        compared(tmp_path, [[1e308]], [[-1e308]])


def test_pictures_are_png_and_svg_whatever_the_names_are(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.jsonl", [[0.5], [1.0]], dataset="") for name in ("$a_1$", "<svg>" + "b" * 99)]
    comparison = compare_runs([read_run(path) for path in paths], resamples=50)
    names = {path.name for path in plot_comparison(comparison, tmp_path / "plots")}
    assert names == {f"{name}.{kind}" for name in ("means", "differences", "tasks-1") for kind in ("png", "svg")}
    assert (tmp_path / "plots" / "means.png").read_bytes().startswith(b"\x89PNG")


def test_the_interval_of_a_difference_covers_it_as_often_as_it_says() -> None:
    """A small, seeded form of `benchmarks/interval_coverage.py`: hard tasks are hard for both."""
    rng, covered, runs = np.random.default_rng(11), 0, 3000
    for _ in range(runs):
        rates = rng.beta(1, 1, 60)
        difference = rng.binomial(4, rates + 0.1 * (1 - rates)) / 4 - rng.binomial(4, rates) / 4
        low, high = interval(difference, np.ones(60))
        covered += low <= 0.05 <= high
    assert 0.94 <= covered / runs <= 0.96


def test_a_pair_needs_a_common_task() -> None:
    with pytest.raises(ValueError, match="no task in common"):
        pair({}, {}, ("a", "b"))
    with pytest.raises(UsageError, match="Which runs"):
        compare_runs([])
    assert RunScores("a", "a.jsonl").scores == []


def test_rewards_whose_sum_is_no_float_are_refused() -> None:
    scores = [EpisodeScore("", "e", "m", 0, repeat, "scored", 1e308) for repeat in range(2)]
    run = RunScores("a", "a", scores)
    with pytest.raises(UsageError, match="so large"):
        compare_runs([run, run])
