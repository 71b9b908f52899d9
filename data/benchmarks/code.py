"""Programs: HumanEval+, MBPP+, BigCodeBench, LiveCodeBench and its translations, infilling, SciCode, IOI."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gym_llm.data.files.conversion import QUESTION
from gym_llm.data.recipes.recipe import Attachment, Benchmark, Source
from gym_llm.types import Row
from gym_llm.utils.limits import FILE_BYTES, limit

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_LITE = "livecodebench/code_generation_lite"
_TRANSLATED = "nvidia/Nemotron-Multilinugual-Eval-LCB"
_COMPLETE = (
    "Complete this Python function; do not change what is given:\n{question}\n\nWrite the whole function in this "
    "form:\n"
    "```python\n# your code\n```"
)


def function(tables: Mapping[str, Iterable[Row]]) -> Iterator[Row]:
    """Keep the prompt; the inputs and the reference are an attachment."""
    for row in tables["problems"]:
        yield {
            "question": row["prompt"].replace("    ", "\t"),
            "entry_point": row["entry_point"],
            "canonical_solution": row["canonical_solution"],
            "verifier_metadata": {"task_id": row["task_id"]},
        }


def _problems(*columns: str) -> Attachment:
    def problems(tables: Mapping[str, Iterable[Row]]) -> Iterator[Row]:
        """Yield the problems as the verifier reads them."""
        for row in tables["problems"]:
            yield {name: row[name] for name in columns if name in row}

    return problems


_STARTING = "You should write self-contained code starting with:"


def library_task(row: dict[str, str]) -> Row:
    """Put the given beginning of the code into a block."""
    index = row["instruct_prompt"].find(_STARTING)
    if index == -1:
        raise ValueError(f"instruct_prompt lacks {_STARTING!r}")
    code = row["code_prompt"]
    if "```python" not in code:
        code = f"```python\n{code}\n```"
    question = f"{row['instruct_prompt'][:index].strip()}\n\n{_STARTING}\n{code}"
    return {
        "question": question.replace("    ", "\t"),
        "verifier_metadata": {
            **{name: row[name] for name in ("task_id", "test", "entry_point", "code_prompt")},
            "split": "hard",
        },
    }


def full_library_task(row: dict[str, str]) -> Row:
    """Convert a row of the whole set."""
    task = library_task(row)
    task["verifier_metadata"]["split"] = "full"
    return task


def cases(text: Any) -> list[dict[str, str]]:
    """Decode LiveCodeBench's tests: JSON, or a pickled text of JSON, compressed, in base 64.

    The unpickler makes nothing but texts: what a pickle names is refused.
    """
    if not text:
        return []
    try:
        value: list[dict[str, str]] = json.loads(text)
        return value
    except (ValueError, TypeError):
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.b64decode(text.encode()), limit(FILE_BYTES))
        if inflate.unconsumed_tail:
            raise ValueError("the tests are too large") from None
        value = json.loads(_Texts(io.BytesIO(data)).load())
        return value


class _Texts(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"the tests name {module}.{name}")


def _tests(row: Row) -> Row:
    every = [*cases(row.get("public_test_cases")), *cases(row.get("private_test_cases"))]
    about = row.get("metadata") or {}
    about = json.loads(about) if isinstance(about, str) else about
    return {
        "inputs": [case["input"] for case in every],
        "outputs": [case["output"] for case in every],
        "fn_name": about.get("func_name") or None,
    }


_WITH_CODE = (
    "You will use the following starter code to write the solution to the problem and enclose your code within "
    "delimiters."
)
_WITHOUT_CODE = (
    "Read the inputs from stdin solve the problem and write the answer to stdout (do not directly test on the sample "
    "inputs). Enclose your code within delimiters as follows. Ensure that when the python program runs, it reads the "
    "inputs, runs the algorithm and writes output to STDOUT."
)


def _live(first: str, last: str) -> Any:
    def live(row: dict[str, Any]) -> Row | None:
        """Keep the problems of a window of time; say how the code is to be written."""
        if not first <= row.get("contest_date", "") < last:
            return None
        code = row.get("starter_code", "")
        return {
            "question_content": row["question_content"],
            "verifier_metadata": {
                "problem_id": row.get("question_id", ""),
                "difficulty": row.get("difficulty", "unknown"),
                "unit_tests": _tests(row),
            },
            "formatting_message": _WITH_CODE if code else _WITHOUT_CODE,
            "starter_code": f"```python\n{code or '# YOUR CODE HERE'}\n```",
        }

    return live


_GENERATE = {
    "de": "Hier ist ein Problem, für das Sie ausführbaren Code in der Programmiersprache Python generieren müssen.",
    "es": "Aquí tienes un problema para el cual necesitas generar un código ejecutable en el lenguaje de programación "
    "Python.",
    "fr": "Voici un problème pour lequel vous devez générer du code exécutable en langage de programmation Python.",
    "ja": "以下は、Pythonプログラミング言語で実行可能なコードを生成する必要がある問題です。",
}


def live_translated(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Join the translated problems with the tests of the originals."""
    for version in ("v5", "v6"):
        originals = {row["question_id"]: row for row in tables[version] if row.get("question_id")}
        for language, instruction in _GENERATE.items():
            for row in tables[f"{version}/{language}"]:
                if (original := originals.get(row["task_id"])) is None:
                    continue
                yield {
                    "question": f"{instruction}\n\n{row['question']}",
                    "problem": row["question"],
                    "task_id": row["task_id"],
                    "release_version": row["release_version"],
                    "subset_for_metrics": language,
                    "target_language": language,
                    "verifier_metadata": {
                        "unit_tests": _tests(original),
                        "difficulty": original.get("difficulty", "unknown"),
                    },
                }


def _files(version: int) -> tuple[str, ...]:
    """A release's files: each adds one."""
    return ("test.jsonl", *(f"test{number}.jsonl" for number in range(2, version + 1)))


def infilling(tables: Mapping[str, Iterable[Row]]) -> Iterator[Row]:
    """Keep what stands around the missing piece; the test is an attachment."""
    for row in tables["problems"]:
        yield {
            "task_id": row["task_id"],
            "prefix": row["prompt"],
            "suffix": row["suffix"],
            "canonical_solution": row["canonical_solution"],
            "language": "python",
            "split": "random_span",
            "comment_delimiter": "#",
            "verifier_metadata": {"task_id": row["task_id"]},
        }


def completion(row: dict[str, Any]) -> Row:
    """Ask for the body of a function, as the original benchmark does; its own test judges it."""
    problem = {name: row[name] for name in ("prompt", "test", "entry_point", "canonical_solution")}
    return {
        "task_id": row["task_id"],
        "question": row["prompt"],
        "verifier_metadata": {"task_id": row["task_id"], "problem": {**problem, "suffix": ""}},
    }


def science_code(row: dict[str, Any]) -> Row:
    """The environment asks for one step after the other."""
    kept = ("problem_id", "problem_name", "required_dependencies", "sub_steps")
    return {"responses_create_params": {"input": []}, **{name: row[name] for name in kept}, "uuid": row["problem_id"]}


def olympiad(tables: Mapping[str, Iterable[Row]]) -> Iterator[Row]:
    """Leave out the subtasks that are worth nothing: the samples."""
    for row in tables["problems"]:
        if row["score"]:
            yield {
                "competition_id": "ioi24",
                "problem_id": row["id"],
                "subtask": row["subtask"],
                "subtask_score": row["score"],
                "name": row["name"],
                "question": row["problem"],
            }


def olympiad_tests(tables: Mapping[str, Iterable[Row]]) -> Iterator[Row]:
    """Yield the problems as `CompetitiveCoding` reads them, each with its tests."""
    subtasks: dict[str, list[Row]] = {}
    for row in tables["problems"]:
        if row["subtask"] != "00-samples":
            subtasks.setdefault(row["id"], []).append(row)
    for name, parts in subtasks.items():
        title = parts[0]["name"]
        yield {
            "problem_id": name,
            "competition_id": "ioi24",
            "subtasks": {
                part["subtask"]: {
                    "score": part["score"],
                    "score_precision": part["score_precision"],
                    "test_names": part["test_names"],
                }
                for part in parts
            },
            "all_tests": {
                row["test_name"]: {"input": row["test_input"], "output": row["test_output"]}
                for row in tables["tests"]
                if row["problem_name"] == title
            },
            "grader_files": parts[0]["grader_files"],
        }


def _live_code(name: str, title: str, version: int, first: str, last: str, aliases: tuple[str, ...]) -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        domain="coding",
        sources=(Source(_LITE, files=_files(version), label=f"release_v{version}"),),
        convert=_live(first, last),
        env_id="gym_llm/CodeGen-v0",
        system="You are an expert Python programmer. You get a programming problem, and write a correct Python "
        "program that "
        "passes all tests.",
        prompt="### Question:\n{question_content}\n\n### Format: {formatting_message}\n{starter_code}\n\n### Answer:",
        repeats=3,
        needs=("sandbox",),
        facts=_FACTS.format(f"livecodebench/{name.removeprefix('livecodebench_')}"),
        aliases=aliases,
    )


_EVALPLUS = "https://github.com/evalplus/{0}_release/releases/download/{1}.jsonl.gz"
_EVALPLUS_PROBLEMS = _problems(
    "task_id", "prompt", "entry_point", "canonical_solution", "base_input", "plus_input", "atol"
)

BENCHMARKS = [
    Benchmark(
        name="human_eval",
        title="HumanEval+: functions by their docstring, with EvalPlus' inputs",
        domain="coding",
        sources=(Source(_EVALPLUS.format("humanevalplus", "v0.1.10/HumanEvalPlus"), label="problems"),),
        convert=function,
        joins=True,
        env_id="gym_llm/EvalPlus-v0",
        attachments={"evalplus_data": _EVALPLUS_PROBLEMS},
        prompt=_COMPLETE,
        rows=164,
        license="MIT",
        headline="mean",
        needs=("sandbox",),
        facts=_FACTS.format("human_eval") + "; the URL as the evalplus package has it",
        aliases=("humaneval", "humaneval_plus", "human_eval_plus"),
    ),
    Benchmark(
        name="human_eval_original",
        title="HumanEval with its own tests",
        domain="coding",
        sources=(Source("openai/openai_humaneval", split="test"),),
        convert=completion,
        env_id="gym_llm/CodeFIM-v0",
        prompt="Complete this Python function. Write only what follows the given code, with its indentation, in "
        "one block:\n"
        "```python\n{question}```",
        needs=("sandbox",),
        facts="benchmarks/table.md, + humaneval",
    ),
    Benchmark(
        name="mbpp",
        title="MBPP+: small programs, with EvalPlus' inputs",
        domain="coding",
        sources=(Source(_EVALPLUS.format("mbppplus", "v0.2.0/MbppPlus"), label="problems"),),
        convert=function,
        joins=True,
        env_id="gym_llm/EvalPlus-v0",
        attachments={"evalplus_data": _EVALPLUS_PROBLEMS},
        prompt=_COMPLETE,
        rows=378,
        license="MIT",
        needs=("sandbox",),
        facts=_FACTS.format("mbpp") + "; the URL as the evalplus package has it",
        aliases=("mbpp_plus",),
    ),
    Benchmark(
        name="bigcodebench",
        title="BigCodeBench Hard: tasks that use libraries",
        domain="coding",
        sources=(Source("bigcode/bigcodebench-hard", split="v0.1.4"),),
        convert=library_task,
        env_id="gym_llm/BigCodeBench-v0",
        prompt=QUESTION,
        rows=148,
        license="Apache 2.0",
        needs=("sandbox",),
        facts=_FACTS.format("bigcodebench"),
        aliases=("bigcodebench_hard",),
        variants={
            "full": {
                "sources": (Source("bigcode/bigcodebench", split="v0.1.4"),),
                "convert": full_library_task,
                "rows": 1140,
            }
        },
    ),
    _live_code(
        "livecodebench_v5_2408_2502",
        "LiveCodeBench v5: problems of August 2024 to February 2025",
        5,
        "2024-08-01",
        "2025-03-01",
        ("livecodebench_v5",),
    ),
    _live_code(
        "livecodebench_v6_2408_2505",
        "LiveCodeBench v6: problems of August 2024 to May 2025",
        6,
        "2024-08-01",
        "2025-06-01",
        ("livecodebench_v6", "livecodebench"),
    ),
    Benchmark(
        name="livecodebench_x",
        title="LiveCodeBench in German, Spanish, French and Japanese",
        domain="coding",
        sources=(
            *(Source(_LITE, files=_files(version), label=f"v{version}", shared=True) for version in (5, 6)),
            *(
                Source(_TRANSLATED, config=version, split=language, label=f"{version}/{language}")
                for version in ("v5", "v6")
                for language in _GENERATE
            ),
        ),
        convert=live_translated,
        joins=True,
        env_id="gym_llm/CodeGen-v0",
        prompt=QUESTION,
        license="CC-BY-4.0",
        headline="macro:target_language",
        needs=("sandbox",),
        facts=_FACTS.format("livecodebench-x"),
    ),
    Benchmark(
        name="human_eval_infilling",
        title="HumanEval Infilling: a random span of a function",
        domain="coding",
        sources=(
            Source(
                "https://github.com/openai/human-eval-infilling/raw/master/data/HumanEval-RandomSpanInfilling.jsonl.gz",
                label="problems",
            ),
        ),
        convert=infilling,
        joins=True,
        env_id="gym_llm/CodeFIM-v0",
        attachments={"fim_data": _problems("task_id", "prompt", "suffix", "test", "entry_point", "canonical_solution")},
        prompt="A piece of this {language} code is missing. Write the piece alone, not what stands before or "
        "after it; keep "
        "the indentation.\n\n### Before\n```{language}\n{prefix}\n```\n\n### "
        "After\n```{language}\n{suffix}\n```\n\n### "
        "Missing piece\n```{language}\n{comment_delimiter} the missing code\n```",
        license="MIT",
        needs=("sandbox",),
        facts=_FACTS.format("human_eval_infilling") + "; the URL as the human-eval-infilling repository has it",
    ),
    Benchmark(
        name="scicode",
        title="SciCode: research problems in steps, solved by functions",
        domain="coding",
        sources=(Source("SciCode1/SciCode", split="test"),),
        convert=science_code,
        env_id="gym_llm/SciCode-v0",
        repeats=8,
        rows=65,
        license="Apache 2.0",
        needs=("sandbox",),
        facts=_FACTS.format("scicode"),
        notes="The tests' targets are in SciCode's test_data.h5: give test_data_fpath.",
    ),
    Benchmark(
        name="ioi",
        title="IOI 2024: subtasks of the olympiad of informatics",
        domain="coding",
        sources=(
            Source("open-r1/ioi", split="test", label="problems"),
            Source("open-r1/ioi-test-cases", config="2024", split="train", label="tests", unread=True),
        ),
        convert=olympiad,
        joins=True,
        env_id="gym_llm/CompetitiveCoding-v0",
        attachments={"test_file": olympiad_tests},
        prompt=QUESTION,
        repeats=50,
        needs=("sandbox",),
        facts=_FACTS.format("ioi"),
    ),
]
