"""Files of benchmarks as their authors publish them become the tasks of the right load."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gym_llm.data.recipes.catalogue import find_benchmark
from gym_llm.data.recipes.offline import convert_files
from gym_llm.errors import DataError
from gym_llm.utils.limits import EXPANSION

HARD = json.dumps([{"input": "What is it?", "target": "(B)"}])
EXAM = json.dumps({"passage": None, "question": "2+1?", "options": ["(A)2", "(B)3"], "label": "B", "other": None})
CALL = json.dumps([{"id": "live_parallel_0", "question": [[{"role": "user", "content": "Go"}]], "function": []}])
TRUTH = json.dumps([{"id": "live_parallel_0", "ground_truth": [{"go": {}}]}])


@pytest.mark.parametrize(
    ("name", "files", "wanted"),
    [
        ("mgsm", {"mgsm_de.tsv": "Wie viel?\t18\n"}, {"expected_answer": "18", "target_language": "de"}),
        ("mgsm", {"mgsm_th.tsv.gz": "question\tanswer_number\nQ\t1,000\n"}, {"target_language": "th"}),
        ("mgsm", {"sw.tsv": "Ngapi?\t3\n"}, {"target_language": "sw"}),
        ("bbh", {"snarks.json": HARD}, {"subset": "snarks"}),
        ("bbh", {"word_sorting.json.gz": HARD}, {"subset": "word_sorting"}),
        ("agieval", {"sat-math.jsonl.gz": EXAM}, {"exam": "sat-math", "expected_answer": "B"}),
        (
            "bfcl_v4",
            {"possible_answer/BFCL_v4_live_parallel.json": TRUTH, "BFCL_v4_live_parallel.json": CALL},
            {"category": "live_parallel", "ground_truth": [{"go": {}}]},
        ),
    ],
)
def test_a_file_is_of_the_load_with_its_name(
    name: str, files: dict[str, str], wanted: dict[str, object], tmp_path: Path
) -> None:
    for file, text in files.items():
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if file.endswith(".gz") else text.encode())
    (task,) = convert_files(find_benchmark(name), [tmp_path / file for file in files])
    assert task | wanted == task


HEADER = "Problem ID,Problem,Short Answer,Category,Subcategory,Source\n"
UNCLOSED = 'imo-bench-algebra-036,"Find $Y$.\n,$Y(x)=A$""",Algebra,Functional Equation,Iran 2002\n'


@pytest.mark.parametrize(
    "row", [UNCLOSED, 'imo-bench-algebra-036,"Find $Y$.\n",$Y(x)=A$,Algebra,Functional Equation,Iran 2002\n']
)
def test_a_problem_and_its_answer_in_one_value_are_taken_apart(row: str, tmp_path: Path) -> None:
    path = tmp_path / "answerbench_v2.csv"
    path.write_text(HEADER + row)
    (task,) = convert_files(find_benchmark("imo_answerbench"), [path])
    assert (task["question"], task["expected_answer"]) == ("Find $Y$.\n", "$Y(x)=A$")
    assert (task["category"], task["subcategory"], task["source"]) == ("Algebra", "Functional Equation", "Iran 2002")


@pytest.mark.parametrize(
    ("name", "file", "text", "why"),
    [
        ("imo_answerbench", "answerbench_v2.csv", HEADER + UNCLOSED.replace("036", "037"), "lacks 'Source'"),
        ("imo_answerbench", "answerbench_v2.csv", HEADER + "1,2,3,4,5,6,7\n", "7 values for 6 columns"),
        ("mgsm", "mgsm_de.tsv", "Wie viel?\n", "1 values for 2 columns"),
        ("bfcl_v4", "BFCL_v4_live_parallel.json", CALL, "missing: possible_answer/BFCL_v4_live_parallel.json"),
        ("bfcl_v4", "possible_answer/BFCL_v4_live_parallel.json", TRUTH, "missing: data/BFCL_v4_live_parallel.json"),
        ("arena_hard", "question.jsonl", '{"uid": "1", "prompt": "Hi"}', "missing: model_answer/gpt-4-0314.jsonl"),
    ],
)
def test_what_cannot_be_converted_says_why(name: str, file: str, text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    with pytest.raises(DataError, match=why):
        list(convert_files(find_benchmark(name), [path]))


def test_a_file_that_expands_too_far_or_is_damaged_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXPANSION, "1")
    path = tmp_path / "snarks.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * (1 << 27) + b"]"))
    with pytest.raises(DataError, match="expands to more"):
        list(convert_files(find_benchmark("bbh"), [path]))
    path.write_bytes(b"no gzip")
    with pytest.raises(DataError, match="damaged"):
        list(convert_files(find_benchmark("bbh"), [path]))
