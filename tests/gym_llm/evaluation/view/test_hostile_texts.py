"""What others wrote does nothing: hostile texts in every field that is shown, served and exported, in a browser."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from testing import often

pytestmark = pytest.mark.slow  # a browser

EVERY: list[str] = json.loads(Path(__file__).with_name("hostile_texts.json").read_text("utf-8"))
HOSTILE = EVERY[:: often(3, 1)]
TOGETHER = 12  # texts in an episode of the second file

DRIVE = Path(__file__).with_name("read_everything.js").read_text("utf-8")


def labelled(make: Any, task: int, text: str) -> dict[str, Any]:
    """An episode with a text in every field of which it has one."""
    record = make.record(task, 0, None if task % 2 else 0.5, make.said(text), env_id=text, dataset=text)
    record["error"] = text if task % 2 else None
    record.update(failure_kind=text, error_phase=text, traceback=text)
    record["response"].update(model=text, id=text, status=text)
    record["info"].update(extracted_answer=text, note=text)
    record["responses_create_params"].update(instructions=text, input=text)
    return {**record, "label": text}


def hostile_record(make: Any, task: int, repeat: int, texts: list[str]) -> dict[str, Any]:
    """An episode with texts in every field that holds several, and as every name that is not ours."""
    first = texts[0]
    every = dict.fromkeys(texts, first)
    items: list[Any] = [make.said(texts[-1]), *({"type": text, "name": text, text: text} for text in texts)]
    for number, text in enumerate(texts):
        items += [
            make.thought(text),
            *make.called(text, text, text, f"{number}a"),
            *make.called(text, json.dumps({text: text}), json.dumps({"error": text}), text),
            *make.called(text, json.dumps({text: [text, {text: text}]}), json.dumps({text: text}), f"{number}c"),
            {"type": "message", "role": text, "content": [{"type": text, "text": text}, {"type": text}]},
            {"type": "message", "role": "user", "content": text},
        ]
    last = make.said(first)
    last["content"][0]["logprobs"] = [{"token": text, "logprob": -1.0} for text in texts]
    items.append({**last, "trajectory_span": [0, 1, 1 + len(texts)]})
    size = 1 + len(texts)
    record = make.record(
        task,
        repeat,
        0.5,
        *items,
        task_fields=every,
        trajectory=[{"input_ids": [1] * size, "loss_mask": [0] + [1] * len(texts), "logprobs": [-1.0] * size}],
    )
    record["timing"].update(dict.fromkeys(texts, 1.0))
    record["info"].update(nested=every, reward_components=dict.fromkeys(texts, 0.5))
    record["responses_create_params"] = {
        "input": [make.said(text, "user") for text in texts],
        "metadata": every,
        "tools": [
            {"type": "function", "name": text, "description": text, "parameters": {text: text}} for text in texts
        ],
    }
    asked = {"input": [make.said(text, "user") for text in texts]}
    judged = {"responses_create_params": asked, "response": {"output": items[:3]}, "verdict_label": first, **every}
    record["info"].update(judge_evaluations=[judged], result=texts, stdout=first, extracted_answer=texts[-1])
    record["info"] = {**every, **record["info"]}
    record["expected_answer"] = first
    return {**every, **record}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, make: Any) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    groups = [HOSTILE[start : start + TOGETHER] for start in range(0, len(HOSTILE), TOGETHER)]
    many = [
        hostile_record(make, task, repeat, group[repeat:]) for task, group in enumerate(groups) for repeat in range(2)
    ]
    singles = [labelled(make, task, text) for task, text in enumerate(HOSTILE)]
    files = {"one each": singles, "many": many, "no records": groups}
    every = dict.fromkeys(HOSTILE[:20], HOSTILE[0])
    settings = {
        "engine": HOSTILE[1],
        "tasks": HOSTILE[2],
        "sampling": every,
        "agent": HOSTILE[3],
        "engine_options": every,
    }
    summary = {"model": HOSTILE[0], "settings": settings, "pass_at": {HOSTILE[4]: 1.0, HOSTILE[5]: 0.5}}
    (folder / "many.summary.json").write_text(json.dumps(summary))
    return [make.write(folder / f"{name}.jsonl", records) for name, records in files.items()]


@pytest.fixture(scope="module")
def named_files(files: list[Path], make: Any) -> list[Path]:
    """Files of hostile names."""
    names = [text for text in HOSTILE if not set(text) & {"/", "\0"} and len(text.encode()) < 200]
    return [make.write(files[0].with_name(name + ".jsonl"), [make.record(0)]) for name in names]


def is_plain(text: str) -> bool:
    """Whether it is shown letter for letter."""
    return text.replace("\n", "").isprintable()


def drive(page: Any) -> None:
    """Sees every text in every view."""
    tasks = list(range(len(HOSTILE)))
    seen = page.evaluate(DRIVE, {"run": 0, "tasks": tasks, "tabs": [""]})
    assert seen["strange"] == []
    same = [(shown, text.strip()) for shown, text in zip(seen["shown"], HOSTILE, strict=True) if is_plain(text)]
    assert len(same) > 0.8 * len(HOSTILE)
    assert [shown for shown, _ in same] == [text for _, text in same]
    groups = list(range(-(-len(HOSTILE) // TOGETHER)))
    unread = page.evaluate(DRIVE, {"run": 2, "tasks": [], "tabs": [], "lines": len(groups)})
    assert unread["strange"] == []
    assert page.evaluate(DRIVE, {"run": 1, "tasks": groups, "tabs": ["", "tokens", "diff", "record"]})["strange"] == []


def test_there_are_enough_of_them() -> None:
    assert len(set(EVERY)) >= 200


def test_hostile_texts_do_nothing_when_served(files: list[Path], serve: Any, visit: Any) -> None:
    with serve(*files) as url:
        visitor = visit(url)
        drive(visitor.page)
        visitor.went_nowhere(url.split("?")[0])


def test_hostile_file_names_do_nothing(named_files: list[Path], serve: Any, visit: Any) -> None:
    assert len(named_files) > 0.4 * len(HOSTILE)
    with serve(*named_files) as url:
        visitor = visit(url)
        visitor.page.locator(".runs-table tbody tr").nth(len(named_files) - 1).locator(".shares-bar").wait_for()
        visitor.page.get_by_role("button", name="Cards").click()
        visitor.page.locator(".card").nth(len(named_files) - 1).locator(".shares-bar").wait_for()
        assert visitor.page.evaluate(DRIVE, {"run": 3, "tasks": [0], "tabs": [""]})["strange"] == []
        visitor.went_nowhere(url.split("?")[0])


@pytest.fixture(scope="module")
def exported(files: list[Path], named_files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from gym_llm.evaluation.view.static_page import export_page

    page = tmp_path_factory.mktemp("page") / "report.html"
    with ThreadPoolExecutor() as pool:  # this thread's event loop is Playwright's
        pool.submit(asyncio.run, export_page([*files, *named_files], page, max_episodes=1000)).result()
    yield page.as_uri()


def test_hostile_texts_do_nothing_in_an_exported_page(exported: str, visit: Any) -> None:
    visitor = visit(exported)
    drive(visitor.page)
    visitor.went_nowhere(exported)
