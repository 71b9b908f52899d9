"""`gym-llm health`: signs of trouble in the records of a run."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from testing import function_call, message_item, outcome_fields, response

import gym_llm
from gym_llm.cli import main
from gym_llm.engines.constant import ConstantEngine
from gym_llm.errors import DataError
from gym_llm.evaluation import health as module
from gym_llm.evaluation.health import health_of
from gym_llm.evaluation.health_signs import SIGNS, record_signs
from gym_llm.records.record import SCHEMA_VERSION, read_record

WORDS = [f"{first}{second}" for first in "bdfgklmnprst" for second in ("a", "e", "io")]


def prose(count: int, seed: int = 0) -> str:
    return " ".join(random.Random(seed).choices([f"{word}{number}" for word in WORDS for number in range(40)], k=count))


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def answered(text: str = "error") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "call_1", "output": text}


def record(*items: Any, task: int = 0, repeat: int = 0, reward: float | None = 1.0, **fields: Any) -> dict[str, Any]:
    info = {"task_index": task, "turn": 1, "tool_errors": 0} | fields.pop("info", {})
    return {
        "rollout_id": {"task_index": task, "repeat_index": repeat},
        "env_id": "gym_llm/Weather-v0",
        "response": response(*items, **fields.pop("response", {})),
        **outcome_fields(reward),
        "info": info,
        "trajectory": None,
        "timing": {},
        "schema_version": SCHEMA_VERSION,
        **fields,
    }


def write(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


call = function_call("get_weather", {"city": "Oslo"})


@pytest.mark.parametrize(
    ("made", "signs"),
    [
        (record(message_item("It is 7.")), []),
        (record(message_item(prose(3000))), []),
        (record(thought(prose(500)), call, answered("7"), message_item("7")), []),
        (record(*[call, answered()] * 3, message_item("7")), ["loop"]),
        (record(*[call, answered()] * 2, message_item("7")), []),
        (record(*[call, answered(), function_call("other"), answered()] * 3), ["loop"]),
        (record(*[function_call("get", {"n": n}) for n in range(9)], message_item("7")), []),
        (record(message_item("I will now check the weather in Oslo. " * 60)), ["repeated n-grams"]),
        (record(message_item("我现在要检查奥斯陆的天气。" * 60)), ["repeated n-grams"]),
        (record(thought("wait, " * 900), message_item("7")), ["repeated n-grams"]),
        (record(message_item("  \n")), ["empty turn"]),
        (record(), ["empty turn"]),
        (record(thought("I know.")), ["thinking only"]),
        (
            record(message_item("It is"), response={"status": "incomplete"}, outcome="truncated", truncated=True),
            ["cut off"],
        ),
        (record(call, answered("7"), outcome="truncated", truncated=True), ["out of turns"]),
        (record(call, answered(), call, call, message_item("7"), info={"tool_errors": 3}), ["tool error storm"]),
        (record(*[call] * 20, message_item("7"), info={"tool_errors": 3}), []),
    ],
)
def test_signs_of_an_episode(made, signs):
    assert record_signs(read_record(made)) == signs


@pytest.mark.parametrize(
    "output",
    [
        [{"type": None}, {}, {"role": 5, "content": 7}],
        [{"type": "message", "role": "assistant", "content": [None, {"text": 3}, "x", {"text": "\ud800" * 400}]}],
        [{"type": "function_call", "name": ["x"], "arguments": {"a": 1}}] * 9,
        [{"type": "reasoning", "summary": "x", "content": None}],
    ],
)
def test_whatever_a_model_wrote_is_read(output):
    assert set(record_signs(read_record(record(response={"output": output})))) <= set(SIGNS)


def test_long_texts_and_many_items_are_read_in_part(monkeypatch):
    from gym_llm.evaluation import health_signs

    seen: list[int] = []
    is_repetitive = health_signs._is_repetitive
    monkeypatch.setattr(health_signs, "_is_repetitive", lambda text: seen.append(len(text)) or is_repetitive(text))
    long = record(*[message_item("ab " * 2_000_000)] * 40, *[message_item("x")] * 100_000)
    assert record_signs(long) == ["repeated n-grams"]  # type: ignore[arg-type]
    health_signs.record_signs(record(*[message_item(prose(200_000))] * 40))  # type: ignore[arg-type]
    assert sum(seen) <= (1 << 20) + (1 << 17) and max(seen) <= 1 << 16


def test_a_file_s_health_has_counts_shares_and_the_worst_episodes(tmp_path):
    records = [record(message_item(prose(20, seed=n)), task=n, reward=float(n % 2)) for n in range(16)]
    records += [record(*[call, answered()] * 4, task=16, reward=0.0, info={"tool_errors": 4})]
    records += [record(message_item(""), task=17, reward=None), record(thought("?"), task=18, reward=0.0)]
    path = write(tmp_path / "a.jsonl", records)
    with path.open("ab") as file:
        file.write(b'not json\n{"a": 1}\n\n{"rollout_id"')
    found = health_of(path)
    assert (found["episodes"], found["unreadable"], found["outcomes"]) == (19, 3, {"scored": 18, "masked": 1})
    counts = {name: sign["episodes"] for name, sign in found["signs"].items() if sign["episodes"]}
    assert counts == {"loop": 1, "empty turn": 1, "thinking only": 1, "tool error storm": 1}
    loop = found["signs"]["loop"]
    assert (loop["share"], loop["mean_reward"], found["mean_reward"]) == (1 / 19, 0.0, 8 / 18)
    assert (
        loop["first"]
        == found["worst"][:1]
        == [
            {
                "line": 17,
                "task_index": 16,
                "repeat_index": 0,
                "dataset": "",
                "signs": ["loop", "tool error storm"],
                "reward": 0.0,
            }
        ]
    )
    assert [episode["line"] for episode in found["worst"]] == [17, 18, 19]


def test_equal_answers_of_different_tasks_are_suspicious(tmp_path):
    text = "I am sorry, but I cannot help with this request."
    same = [record(message_item(text if n % 2 else prose(20, seed=n)), task=n) for n in range(20)]
    letters = [record(message_item("ABCD"[n % 4]), task=n) for n in range(20)]
    one_task = [record(message_item(text), task=1, repeat=n) for n in range(20)]
    answers = [health_of(write(tmp_path / "a.jsonl", each))["equal_answers"] for each in (same, letters, one_task)]
    assert [[answer["suspicious"] for answer in each] for each in answers] == [[True], [False] * 3, [False]]
    assert (answers[0][0]["count"], answers[0][0]["share"], answers[0][0]["tasks"]) == (10, 0.5, 10)


def test_memory_does_not_grow_with_different_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_ANSWERS", 50)
    monkeypatch.setattr(module, "_MOST_TASKS", 50)
    texts = ["the same long answer to everything" if n % 3 else prose(9, seed=n) for n in range(3000)]
    path = write(tmp_path / "a.jsonl", [record(message_item(text), task=n) for n, text in enumerate(texts)])
    (answer, *_) = health_of(path)["equal_answers"]
    assert answer["suspicious"] and 1900 <= answer["count"] <= 2000


def test_a_line_without_an_end_takes_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LONGEST_LINE", 1 << 20)
    path = write(tmp_path / "a.jsonl", [record(message_item("7"))])
    with path.open("ab") as file:
        for _ in range(64):
            file.write(b"[" * (1 << 20))
        file.write(b"\n" + json.dumps(record(message_item("7"), task=1)).encode() + b"\n")
    tracemalloc.start()
    try:
        found = health_of(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found["episodes"], found["unreadable"]) == (2, 1)
    assert peak < 16 << 20


def test_the_command_prints_signs_and_how_to_look(tmp_path, capsys):
    path = tmp_path / "a b.jsonl"
    with gym_llm.Run("gym_llm/Weather-v0", ConstantEngine(""), output=path, limit=12) as run:
        run.play()
    assert main(["health", str(path)]) == 0
    out = capsys.readouterr().out
    assert "12 episodes (12 scored)" in out and "empty turn" in out and "100.0%" in out
    assert f"gym-llm show '{path}' --task 0 --repeat 0" in out
    assert main(["health", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["signs"]["empty turn"]["episodes"] == 12
    assert main(["health", str(tmp_path / "none.jsonl")]) == 2
    assert "Cannot read" in capsys.readouterr().err


def test_nemo_gym_s_and_compressed_files_are_read(tmp_path):
    import gzip

    line = {"_ng_task_index": 3, "_ng_rollout_index": 1, "reward": 0.5, "response": response(thought("…"))}
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(json.dumps(line).encode() + b"\n"))
    found = health_of(tmp_path / "a.jsonl.gz")
    assert found["signs"]["thinking only"]["first"][0]["task_index"] == 3
    with pytest.raises(DataError, match="Cannot read"):
        health_of(tmp_path)
