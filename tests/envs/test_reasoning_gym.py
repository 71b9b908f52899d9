"""ReasoningGym: the library's puzzles and scorers, in processes that can be killed."""

from __future__ import annotations

import json
import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from testing import cpu_seconds, message, row
from verifier_vectors import replay_all

from gym_llm.envs.reasoning_gym.env import ReasoningGym, _find, _find_as_nemo_gym
from gym_llm.envs.reasoning_gym.names import dataset_names
from gym_llm.errors import DataError

pytest.importorskip("reasoning_gym")
SUM = {"question": "1 + 2 = ?", "answer": "3", "metadata": {"source_dataset": "chain_sum", "source_index": 0}}


def play(entry: dict[str, Any], text: str, **kwargs: Any) -> tuple[float, dict[str, Any]]:
    env = gym.make("gym_llm/ReasoningGym-v0", **kwargs)
    env.reset(options={"task": row(entry["question"], **entry)})
    _, reward, terminated, _, info = env.step(message(text))
    assert terminated
    return float(reward), info


@pytest.mark.parametrize(
    ("text", "ours", "nemo"),
    [
        ("so <answer> 3 </answer>", "3", "3"),
        ("<answer>4</answer> no <answer>3</answer>", "3", "3"),
        ("in <answer> tags: <answer>3</answer>", "3", "tags: <answer>3"),
        (r"<answer>3 \boxed{4}", "4", "4"),
        (r"\boxed{4} no \boxed{3}", "3", "4"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}", r"\frac{1"),
        (r"\boxed{} \boxed{3}", "3", "3"),
        (" 3\n", "3", " 3\n"),
        ("  ", "", ""),
        (r"\boxed{3", r"\boxed{3", r"\boxed{3"),
    ],
)
def test_where_the_answer_is_found(text: str, ours: str, nemo: str) -> None:
    assert (_find(text), _find_as_nemo_gym(text)) == (ours, nemo)


def test_finding_takes_linear_time() -> None:
    for text in ("<answer>" * 100_000, "\\boxed{" * 100_000, "</answer>" * 100_000, "\\boxed{}" * 100_000):
        assert cpu_seconds(_find_as_nemo_gym, text) + cpu_seconds(_find, text) < 1.0


def test_the_librarys_scorer_decides() -> None:
    reward, info = play(SUM, "<answer>3</answer>")
    assert reward == 1.0
    details = {"task_name": "chain_sum", "score": 1.0, "extracted_answer": "3", "timed_out": False}
    assert info | details == info
    assert play(SUM, "<answer>4</answer>")[0] < 0.1
    assert play(SUM, "")[0] == 0.0


def test_a_right_grid_counts_but_not_for_nemo_gym() -> None:
    grid = {"question": "?", "answer": "1 2\n3 4", "metadata": {"source_dataset": "rearc", "output": [[1, 2], [3, 4]]}}
    assert play(grid, "<answer>1 2\n3 4</answer>")[0] == 1.0
    assert play(grid, "<answer>1 2\n3 4</answer>", conform="nemo")[0] == 0.05


def test_what_the_model_writes_is_not_run(tmp_path: Any) -> None:
    written = tmp_path / "written"
    attack = f"__import__('pathlib').Path({str(written)!r}).touch()"
    metadata = {"source_dataset": "string_insertion", "source_index": 0}
    play({"question": "?", "answer": "AB", "metadata": metadata}, f"<answer>{attack}</answer>")
    play({"question": "?", "answer": "AB", "metadata": metadata}, "<answer>['A', 'B']</answer>")
    metadata = {"source_dataset": "simple_integration", "integrand": "2*x", "variable": "x"}
    entry = {"question": "?", "answer": "x**2 + C", "metadata": metadata}
    play(entry, f"<answer>{attack}</answer>")
    assert not written.exists()
    assert play(entry, "<answer>x**2 + C</answer>")[0] == 1.0


@pytest.mark.slow
def test_a_scorer_that_hangs_is_ended() -> None:
    metadata = {"source_dataset": "simple_integration", "integrand": "2*x", "variable": "x"}
    entry = {"question": "?", "answer": "x**2 + C", "metadata": metadata}
    start = time.monotonic()
    reward, info = play(entry, "<answer>9**9**9**9</answer>", deadline=1.0)
    assert (reward, info["timed_out"]) == (0.0, True) and time.monotonic() - start < 60


@pytest.mark.parametrize("name", ["knights_knaves", "sudoku", "rearc"])
def test_generated_puzzles_score_one_for_their_answers(name: str) -> None:
    env = gym.make("gym_llm/ReasoningGym-v0", dataset=name).unwrapped
    made = env.generate(np.random.default_rng(3))
    assert made == env.generate(np.random.default_rng(3)) == json.loads(json.dumps(made))
    assert made["metadata"]["source_dataset"] == name
    assert play(made, f"<answer>{made['answer']}</answer>")[0] == 1.0


def test_settings_levels_and_weights_choose_what_is_generated() -> None:
    env = gym.make("gym_llm/ReasoningGym-v0", dataset="chain_sum", config={"min_terms": 9, "max_terms": 9}).unwrapped
    assert env.generate(np.random.default_rng(0))["question"].count(" + ") <= 8
    assert env.generate(np.random.default_rng(0))["metadata"]["num_terms"] == 9
    easy, hard = (
        gym.make("gym_llm/ReasoningGym-v0", dataset="chain_sum", level=level).unwrapped.generate(
            np.random.default_rng(1)
        )
        for level in (0, 3)
    )
    assert easy["metadata"]["difficulty"] != hard["metadata"]["difficulty"]
    mixed = gym.make("gym_llm/ReasoningGym-v0", dataset={"chain_sum": 0, "gcd": 2, "lcm": 1}).unwrapped
    names = [mixed.generate(np.random.default_rng(n))["metadata"]["source_dataset"] for n in range(30)]
    assert set(names) == {"gcd", "lcm"} and names.count("gcd") > names.count("lcm")


def test_a_composite_is_the_librarys_own() -> None:
    import reasoning_gym
    from reasoning_gym.composite import DatasetSpec

    specs = [
        {"name": "gcd", "weight": 2},
        {"name": "chain_sum", "weight": 1.5, "config": {"min_terms": 5, "max_terms": 6}},
        {"name": "spell_backward", "weight": 1},
    ]
    own = reasoning_gym.create_dataset(
        "composite", seed=3, size=40, datasets=[DatasetSpec(**{"config": {}, **spec}) for spec in specs]
    )
    env = ReasoningGym(composite={"datasets": specs, "size": 40, "seed": 3})
    seen = set()
    for seed in range(30):
        made = env.generate(np.random.default_rng(seed))
        entry = own[made["metadata"]["source_index"]]
        assert {name: made[name] for name in entry} == json.loads(json.dumps(entry))
        seen.add(made["metadata"]["source_dataset"])
        assert play({name: made[name] for name in entry}, f"<answer>{made['answer']}</answer>")[0] == 1.0
    assert seen == {"gcd", "chain_sum", "spell_backward"}


def test_a_composite_that_makes_no_sense_is_refused() -> None:
    gcd = {"name": "gcd", "weight": 1}
    for composite in (
        {"datasets": []},
        {"datasets": [gcd, gcd]},
        {"datasets": [{"name": "gdc"}]},
        {"datasets": [{**gcd, "weight": 0}]},
        {"datasets": [{**gcd, "config": 3}]},
        {"datasets": [{**gcd, "levels": 3}]},
        {"datasets": [gcd], "size": 0},
        {"datasets": [gcd], "seed": None},
        {"datasets": [gcd], "sizes": 5},
    ):
        with pytest.raises(ValueError):
            ReasoningGym(composite=composite)
    with pytest.raises(ValueError, match="leave out"):
        ReasoningGym(composite={"datasets": [gcd]}, level=3)
    with pytest.raises(DataError, match="makes no task"):
        wrong = {"datasets": [{**gcd, "config": {"no_such": 1}}]}
        ReasoningGym(composite=wrong).generate(np.random.default_rng(0))


def test_all_datasets_are_known_and_others_refused() -> None:
    assert len(dataset_names()) >= 105 and {"rubiks_cube", "arc_agi", "graph_color"} <= dataset_names()
    assert "composite" not in dataset_names()
    env = gym.make("gym_llm/ReasoningGym-v0")
    for metadata in ({}, {"source_dataset": "chainsum"}, {"source_dataset": ["chain_sum"]}):
        with pytest.raises(DataError, match="source_dataset"):
            env.reset(options={"task": row("?", question="?", answer="1", metadata=metadata)})
    wrong: list[dict[str, Any]] = [
        {"dataset": "sudok"},
        {"dataset": []},
        {"dataset": {"gcd": -1.0}},
        {"level": -1},
        {"config": {"gcd": 3}},
        {"dataset": "gcd", "config": 3},
        {"deadline": 0},
    ]
    for kwargs in wrong:
        with pytest.raises(ValueError):
            ReasoningGym(**kwargs)
    with pytest.raises(DataError, match="makes no task"):
        ReasoningGym(dataset="gcd", config={"no_such": 1}).generate(np.random.default_rng(0))


def test_recorded_episodes_score_as_recorded() -> None:
    assert replay_all("reasoning_gym")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So.\nThe final answer is:\n1 2\n2 1", "1 2\n2 1"),
        ("**Final Answer:**\n\n3   4\n4   3\n\nI hope that helps.", "3   4\n4   3"),
        ("Final answer: 5\nThe final answer is: 6", "6"),
        ("### Final Answer\n```\nU R\nR U\n```\nDone.", "U R\nR U"),
        ("The final answer is: 4, <answer>5</answer>", "5"),
        ("The final answer is: \\boxed{5}", "5"),
        ("The final answer is", "The final answer is"),
        ("A final answer is not known", "A final answer is not known"),
        ("1 2\n\n2 1", "1 2\n\n2 1"),
    ],
)
def test_without_tags_the_paragraph_that_is_named_counts(text: str, answer: str) -> None:
    assert _find(text) == answer
