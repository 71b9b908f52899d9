"""Rows of other columns become tasks by a mapping, and one that does not fit says which columns there are."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

from gym_llm.data.files.datasets import DatasetConfig
from gym_llm.data.files.mapping import map_row, parse_mapping
from gym_llm.data.files.reading import absolute_source, mapped_source, parse_source, read_objects
from gym_llm.errors import DataError, UsageError

GSM8K = "question=input, answer|after(####)=expected_answer"


@pytest.mark.parametrize(
    ("mapping", "row", "task"),
    [
        ("a=b", {"a": 1, "c": 2}, {"c": 2, "b": 1}),
        ('"boxed"=mode', {"a": 1}, {"a": 1, "mode": "boxed"}),
        ("{context}\n{meta.q}=question", {"context": "C", "meta": {"q": "Q"}}, {"question": "C\nQ"}),
        ("a|before(,)|strip|lower=b", {"a": " Yes , no"}, {"b": "yes"}),
        (r"a|regex(= (\d+))=b", {"a": "x = 12"}, {"b": "12"}),
        ("a|number=b", {"a": "about 1,234.5 km"}, {"b": "1234.5"}),
        ("o|letters=options, i|letter=expected_answer", {"o": ["x", "y"], "i": 1},
         {"options": [{"A": "x"}, {"B": "y"}], "expected_answer": "B"}),
    ],
)  # fmt: skip
def test_steps(mapping: str, row: dict[str, object], task: dict[str, object]) -> None:
    assert map_row(row, parse_mapping(mapping)) == task


def test_a_shuffle_is_the_same_everywhere() -> None:
    mapping = parse_mapping("o|shuffle(q)|letters=options")
    first = map_row({"q": "Which?", "o": ["a", "b", "c", "d"]}, mapping)
    assert first == map_row({"q": "Which?", "o": ["a", "b", "c", "d"]}, mapping)
    assert sorted(text for option in first["options"] for text in option.values()) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ("question", "is not COLUMN=FIELD"),
        ("a|aftr(x)=b", "no step 'aftr'. Did you mean after"),
        ("", "is empty"),
    ],
)
def test_a_wrong_mapping_is_refused(mapping: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        parse_mapping(mapping)


def test_a_table_is_played(tmp_path: Path) -> None:
    table = tmp_path / "gsm8k.csv"
    table.write_text('question,answer,n\n"What is 1 + 1,\nat least?",so #### 2,7\n')
    source = mapped_source(str(table), GSM8K)
    assert parse_source(absolute_source(source)).mapping == GSM8K
    env = gym.make("gym_llm/MathVerify-v0", tasks=source)
    observation, _ = env.reset(options={"task_index": 0})
    assert observation["input"][0]["content"] == "What is 1 + 1,\nat least?"
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": r"\boxed{2}"}]}
    assert env.step([answer])[1] == 1.0
    tabs = tmp_path / "rows.tsv"
    tabs.write_text("a\tb\n1\t2\n3\t4\n")
    assert [row for _, row in read_objects(f"{tabs}[1:]")] == [{"a": "3", "b": "4"}]


def test_a_mapping_that_fits_no_row_names_the_columns(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "1 + 1", "answer": "2"}\n')
    with pytest.raises(
        DataError, match=r"row 1: there is no column 'promt'. Did you mean prompt\? The columns are prompt, a"
    ):
        list(read_objects(mapped_source(str(rows), "promt=input")))
    with pytest.raises(DataError, match="'####' is not in '2'"):
        list(read_objects(mapped_source(str(rows), "answer|after(####)=expected_answer")))


def test_a_configuration_has_a_map(tmp_path: Path) -> None:
    mapping = {"input": "question", "expected_answer": "answer|after(####)"}
    config = DatasetConfig(name="a", type="example", jsonl_fpath="a.csv", map=mapping, end_idx=5)
    assert config.source == "a.csv[:5]?map=question=input, answer|after(####)=expected_answer"


def test_a_template_has_steps() -> None:
    mapping = parse_mapping("{q}\\n{choices|listed}=input, label|letter=expected_answer".replace("\\n", "\n"))
    task = map_row({"q": "Which is red?", "choices": ["sky", "rose"], "label": 1}, mapping)
    text = task.pop("responses_create_params")["input"][0]["content"]
    assert text == "Which is red?\nA) sky\nB) rose" and task == {"expected_answer": "B"}
    with pytest.raises(UsageError, match=r"no step 'list'\. Did you mean listed"):
        parse_mapping("{choices|list}=input")
