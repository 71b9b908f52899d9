"""`gym-llm view`: which files it shows, how it ends, and the page that it exports."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import urllib.request
from base64 import b64decode, b64encode
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from testing import message_item

from gym_llm.cli import main
from gym_llm.errors import UsageError
from gym_llm.evaluation.view import static_page as export
from gym_llm.evaluation.view.run_files import MOST_FILES, find_runs
from gym_llm.evaluation.view.static_page import export_page
from gym_llm.utils.json_codec import dumps

HOSTILE = "</script><script>alert(1)</script><!-- ]]> \u2028"


def episode(task: int, tokens: int = 3, **fields: Any) -> dict[str, Any]:
    log_probs = [-random.random() for _ in range(tokens)]
    ids = [random.randrange(50_000) for _ in range(tokens)]
    return {
        "responses_create_params": {"input": "Go."},
        "response": {"output": [{**message_item(HOSTILE), "trajectory_span": [0, 1, tokens]}]},
        "rollout_id": {"task_index": task, "repeat_index": 0},
        "env_id": HOSTILE,
        "outcome": "scored",
        "reward": 1.0,
        "error_phase": None,
        "info": {"turn": 1, "tool_errors": 0},
        "trajectory": [{"input_ids": ids, "loss_mask": [1] * tokens, "logprobs": log_probs}],
        "schema_version": 2,
        **fields,
    }


def write(path: Path, records: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(dumps, records)))
    return path


def exported(runs: list[Path], page: Path, **options: Any) -> tuple[str, dict[str, Any], str]:
    """The page, the data in it, and what was said to be left out."""
    note = asyncio.run(export_page(runs, page, **options))
    text = page.read_text("utf-8")
    (block,) = re.findall(r'<script type="application/json" id="view-data">"([A-Za-z0-9+/=]*)"</script>', text)
    return text, json.loads(gzip.decompress(b64decode(block))), note


def test_a_page_has_all_that_it_shows_in_it(tmp_path: Path) -> None:
    runs = [write(tmp_path / f"{name}.jsonl", [episode(n) for n in range(3)]) for name in ("a", "<script>")]
    text, data, note = exported(runs, tmp_path / "page.html")
    assert note == data["note"] == ""
    assert [run["episodes"] for run in data["runs"]] == [3, 3]
    for number in range(2):
        assert [row["n"] for row in data["rows"][number]] == [0, 1, 2]
        assert [one["rollout_id"]["task_index"] for one in data["episodes"][number]] == [0, 1, 2]
        assert data["stats"][number]["grid"]["cells"] == [[0], [1], [2]]
    (log_prob, *_) = data["episodes"][0][0]["trajectory"][0]["logprobs"]
    assert log_prob == round(log_prob, 4)
    assert "alert(1)" not in text  # what is in the data is packed
    text = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)  # KaTeX has such words in it
    assert not re.search(r'(src|href)="(?!data:)', text) and "\nimport " not in text and "\nexport " not in text


def test_a_page_runs_its_own_script_and_no_other(tmp_path: Path) -> None:
    text, _, _ = exported([write(tmp_path / "a.jsonl", [episode(0)])], tmp_path / "page.html")
    policy = unescape(re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[0])
    (script,) = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    (library,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    hashes = [f"'sha256-{b64encode(sha256(each.encode()).digest()).decode()}'" for each in (library, script, style)]
    assert f"script-src {hashes[0]} {hashes[1]};" in policy and f"style-src {hashes[2]};" in policy
    assert policy.startswith("default-src 'none';") and "connect-src" not in policy and "unsafe" not in policy
    assert "font-src data:;" in policy and "require-trusted-types-for 'script';" in policy
    assert text.count("<script") == 3 and "url(fonts" not in text
    assert text.index("Content-Security-Policy") < text.index("<style>")


def test_of_many_episodes_the_first_are_in_the_page_and_it_says_so(tmp_path: Path) -> None:
    runs = [write(tmp_path / f"{count}.jsonl", [episode(n) for n in range(count)]) for count in (30, 2, 20)]
    _, data, note = exported(runs, tmp_path / "page.html", max_episodes=12)
    assert [len(rows) for rows in data["rows"]] == [5, 2, 5]
    assert [stats["episodes"] for stats in data["stats"]] == [30, 2, 20]
    assert note == data["note"] == "12 of 52 episodes are in this page; the figures are of all."


def test_a_page_that_would_be_too_large_has_no_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MOST_BYTES", 250_000)
    run = write(tmp_path / "a.jsonl", [episode(n, tokens=2000) for n in range(30)])
    _, data, note = exported([run], tmp_path / "page.html")
    assert note == "Token ids and log probabilities are left out."
    assert all("trajectory" not in one and one["reward"] == 1.0 for one in data["episodes"][0])
    assert all("trajectory_span" not in one["response"]["output"][0] for one in data["episodes"][0])


def test_lines_that_are_no_records_are_in_the_page_too(tmp_path: Path) -> None:
    run = write(tmp_path / "a.jsonl", [episode(0), 5, episode(1, trajectory="x"), episode(2, response=None)])
    _, data, _ = exported([run], tmp_path / "page.html")
    assert [row["outcome"] for row in data["rows"][0]] == ["scored", "unreadable", "unreadable", "unreadable"]
    assert data["episodes"][0][1]["view_text"] == "5"


# -- modules -----------------------------------------------------------------------------------------------------------


def bundled(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> str:
    for name, source in modules.items():
        (folder / f"{name}.js").write_text(source)
    monkeypatch.setattr(export, "STATIC", folder)
    return export._bundled("main.js")


def test_modules_become_one_script_in_the_order_of_their_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = bundled(
        tmp_path,
        monkeypatch,
        main='import { a,\n  b as c } from "./one.js";\nimport { d } from "./two.js";\nrun(a, c, d);\n',
        one='import { d } from "./two.js";\nexport const a = d;\nfunction b() {}\nexport { b };\n',
        two="export async function d() {}\nexport class E {}\n",
    )
    assert script.index("module_two_js = ") < script.index("module_one_js = ") < script.index("run(a, c, d)")
    assert script.count("module_two_js = ") == 1
    assert "const { a,\n  b: c } = module_one_js;" in script
    assert "return { a, b };" in script and "return { d, E };" in script


@pytest.mark.parametrize(
    "source",
    [
        'import x from "./one.js";',
        "export default 5;",
        "export let x = 5;",
        'import "./one.js";',
        'export * from "./one.js";',
    ],
)
def test_a_module_that_cannot_be_put_in_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    with pytest.raises(ValueError, match=r"main\.js: cannot bundle"):
        bundled(tmp_path, monkeypatch, main=source, one="")


def test_modules_in_a_circle_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"main\.js -> one\.js -> main\.js"):
        bundled(tmp_path, monkeypatch, main='import { a } from "./one.js";', one='import { b } from "./main.js";')


# -- which files -------------------------------------------------------------------------------------------------------


def test_a_folder_stands_for_its_rollouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(MOST_FILES + 3):
        os.utime(write(tmp_path / f"rollouts/{n}.jsonl", [episode(n)]), (n, n))
    write(tmp_path / "rollouts/tasks.jsonl", [{"responses_create_params": {"input": "Go."}}])
    (tmp_path / "rollouts/0.summary.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    newest = [f"{n}.jsonl" for n in reversed(range(3, MOST_FILES + 3))]
    assert [path.name for path in find_runs([])] == newest
    assert [path.name for path in find_runs(["rollouts"])] == newest
    write(tmp_path / "result/records/x.jsonl", [episode(0)])
    assert [path.name for path in find_runs(["result", "rollouts/1.jsonl", "result/records/x.jsonl"])] == [
        "x.jsonl",
        "1.jsonl",
    ]


def test_what_cannot_be_shown_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"no folder \./rollouts here: play something first"):
        find_runs([])
    (tmp_path / "rollouts").mkdir()
    with pytest.raises(UsageError, match="There are no rollouts in rollouts"):
        find_runs([])
    with pytest.raises(UsageError, match="is not a rollout file"):
        find_runs([write(tmp_path / "tasks.jsonl", [{"question": 1}])])
    with pytest.raises(UsageError, match="unpack it first"):
        find_runs(["a.jsonl.gz"])


@pytest.mark.parametrize("arguments", [["nowhere.jsonl"], ["nowhere.jsonl", "--export", "page.html"]])
def test_a_file_that_is_not_there_is_one_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["view", *arguments]) == 2
    assert capsys.readouterr().err == "gym-llm: Cannot read nowhere.jsonl: No such file or directory.\n"


def test_the_command_writes_the_page_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rollouts/a.jsonl", [episode(n) for n in range(5)])
    assert main(["view", "--export", "page.html", "--max-episodes", "2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("page: page.html (") and "2 of 5 episodes are in this page" in out


def test_a_page_never_takes_the_place_of_its_rollouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = write(tmp_path / "a.jsonl", [episode(0)]).read_bytes()
    assert main(["view", "a.jsonl", "--export", "./a.jsonl"]) == 2
    assert "a.jsonl is the file of rollouts itself: name another file" in capsys.readouterr().err
    assert (tmp_path / "a.jsonl").read_bytes() == before


@pytest.mark.slow
def test_it_serves_the_newest_rollouts_until_it_is_interrupted(tmp_path: Path) -> None:
    write(tmp_path / "rollouts/a.jsonl", [episode(7)])
    process = subprocess.Popen(
        [sys.executable, "-m", "gym_llm.cli", "view", "--no-browser"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "rollouts/a.jsonl\n"
        url = process.stdout.readline().removeprefix("look: ").strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", url)
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("text/html")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    finally:
        process.kill()
        process.wait()
