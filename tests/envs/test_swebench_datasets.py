"""SWEBench: tasks of Multilingual and SWE-smith, by their datasets' columns, in images that are made here."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import shutil
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from image_files import docker_save, oci_layout, root_file_system, write
from testing import function_call, message

from gym_llm.envs.harbor.log_parsers import PARSERS
from gym_llm.envs.harbor.swe_bench import verdict, verdict_of
from gym_llm.envs.swebench.env import with_image
from gym_llm.errors import DataError
from gym_llm.sandbox.inside import tree

ENV_ID = "gym_llm/SWEBench-v0"
PROGRAMS = (
    *("/bin/bash", "/bin/sh", "/bin/cat", "/bin/ls", "/bin/mkdir", "/bin/rm", "/bin/sed", "/bin/tail"),
    *("/usr/bin/env", "/usr/bin/git", "/usr/bin/patch", "/usr/bin/python3"),
)
IMAGE = {"Env": ["PATH=/usr/bin:/bin", "HOME=/root"], "WorkingDir": "/testbed"}
CARGO = """#!/bin/bash
# Each line of tests.txt is a test: its name, and the line that the answer has to have.
while read -r name line; do
    [[ $'\\n'"$(cat answer.txt)"$'\\n' == *$'\\n'"$line"$'\\n'* ]] && state=ok || state=FAILED
    echo "test $name ... $state"
done < tests.txt
"""
needs_programs = pytest.mark.skipif(
    not all(map(os.path.exists, PROGRAMS)), reason=f"an image is made of {', '.join(PROGRAMS)}"
)


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=own", "-c", "user.email=own@example.org", "-c", "core.hooksPath=/dev/null"]
    return subprocess.run(
        ["git", "-C", folder, *settings, *arguments], capture_output=True, text=True, check=True
    ).stdout


def repository(folder: Path, files: dict[str, str]) -> str:
    """Make a repository in a folder, and return its commit."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q")
    git(folder, "add", "-Af")
    git(folder, "commit", "-qm", "base")
    return git(folder, "rev-parse", "HEAD").strip()


def change(folder: Path, name: str, text: str) -> str:
    """Return the patch that gives a file of a repository another text."""
    (folder / name).write_text(text)
    patch = git(folder, "diff")
    git(folder, "checkout", "-q", "--", name)
    return patch


def program(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(0o755)


def image(root: Path, form: str) -> str:
    """Pack a root file system as `docker save` does, or as the folder of an OCI layout."""
    layers = [gzip.decompress(tree.pack(str(root), 1 << 30))]
    if form == "docker save":
        return write(root.parent / "image.tar", docker_save(layers, IMAGE))
    return write(root.parent / "image", oci_layout(layers, settings=IMAGE), "folder")


def play(row: dict[str, Any], images: dict[str, str], cache: Path, *commands: str, solve: bool = False) -> Any:
    """Return the reward, and what the shell said."""
    env = gym.make(ENV_ID, tasks=[row], images=images, registries=[], cache=str(cache), solve=solve)
    env.reset()
    said = ""
    for command in commands:
        observation, *_ = env.step([function_call("shell", {"command": command})])
        said += str(observation["input"][-1]["output"])
    reward = env.step(message("Done."))[1]
    env.close()
    return reward, said


@pytest.mark.slow
@needs_programs
@pytest.mark.parametrize("form", ["docker save", "OCI folder"])
def test_a_task_of_multilingual_is_resolved_by_its_patch_and_by_nothing_less(form: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root_file_system(root, PROGRAMS)
    program(root / "usr/bin/cargo", CARGO)
    folder = root / "testbed"
    base = repository(folder, {"answer.txt": "one\nold\n", "tests.txt": "tests::old old\n"})
    row = {
        **{"repo": "tokio-rs/axum", "version": "2096", "instance_id": "tokio-rs__axum-2096", "base_commit": base},
        **{"problem_statement": "The answer should say two.", "patch": change(folder, "answer.txt", "two\nold\n")},
        "test_patch": change(folder, "tests.txt", "tests::old old\ntests::new two\n"),
        **{"FAIL_TO_PASS": ["tests::new"], "PASS_TO_PASS": ["tests::old"]},
    }
    images = {"swebench/sweb.eval.x86_64.tokio-rs_1776_axum-2096:latest": image(root, form)}
    if form == "OCI folder":  # the dataset's columns since 2026
        marks = [f": '>>>>> {mark} Test Output'" for mark in ("Start", "End")]
        back, end = f"git checkout {base} tests.txt", "EOF_114329324912"
        apply = f"git apply --verbose --reject - <<'{end}'\n{row['test_patch']}\n{end}"
        script = [
            "#!/bin/bash",
            "set -uxo pipefail",
            "cd /testbed",
            back,
            apply,
            marks[0],
            "cargo test",
            marks[1],
            back,
        ]
        row |= {"image": next(iter(images)), "log_parser": "parse_log_cargo", "eval_type": "pass_and_fail"}
        row["eval_script"] = "\n".join(script)
    cache = tmp_path / "cache"
    assert play(row, images, cache)[0] == 0.0
    assert play(row, images, cache, solve=True)[0] == 1.0
    assert play(row, images, cache, "sed -i s/one/two/ answer.txt; rm tests.txt")[0] == 1.0
    assert play(row, images, cache, "sed -i 's/one/two/; s/old/new/' answer.txt")[0] == 0.0, "another test broke"
    assert play(row, images, cache, "echo 'tests::new old' > tests.txt")[0] == 0.0, "the tests are the row's"


@pytest.mark.slow
@needs_programs
def test_a_task_of_swe_smith_is_resolved_by_the_reverse_of_its_patch(tmp_path: Path) -> None:
    root, library = tmp_path / "root", Path(os.path.realpath("/usr/bin/python3")).name
    root_file_system(root, PROGRAMS)
    unneeded = shutil.ignore_patterns("test", "tests", "__pycache__", "dist-packages", "config-*", "ensurepip")
    shutil.copytree(f"/usr/lib/{library}", root / "usr" / "lib" / library, ignore=unneeded, symlinks=True)
    for package in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        source = Path(pytest.__file__).parent.parent / package
        shutil.copytree(source, root / "srv" / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(pytest.__file__).parent.parent / "py.py", root / "srv")
    program(root / "srv/pluggy-1.dist-info/METADATA", f"Name: pluggy\nVersion: {version('pluggy')}\n")
    program(root / "usr/bin/pytest", '#!/bin/bash\nPYTHONPATH=/srv exec python3 -m pytest "$@"\n')
    program(root / "opt/miniconda3/bin/activate", "")
    folder = root / "testbed"
    good = "def minutes(hours, rest):\n    return 60 * hours + rest\n\n\ndef half(x):\n    return x // 2\n"
    test_new = "from clock import minutes\n\n\ndef test_new():\n    assert minutes(1, 5) == 65\n"
    files = {"clock.py": good, "tests/test_new.py": test_new, ".gitignore": "kept.txt\n", "kept.txt": ""}
    test_old = "import pytest\nfrom clock import half\n\n\n@pytest.mark.parametrize('x', [4, 5])\n"
    files["tests/test_old.py"] = f"{test_old}def test_old(x):\n    assert half(x) == 2\n"
    repository(folder, files)
    row = {
        **{"instance_id": "own__clock.c0ffee00.func_pm_op_swap__a1b2", "repo": "swesmith/own__clock.c0ffee00"},
        **{"image_name": "swesmith.x86_64.own__clock.c0ffee00", "problem_statement": "minutes(1, 5) is wrong."},
        "patch": change(folder, "clock.py", good.replace("60 *", "60 -")),
        "FAIL_TO_PASS": ["tests/test_new.py::test_new"],
        "PASS_TO_PASS": ["tests/test_old.py::test_old[4]", "tests/test_old.py::test_old[5]"],
    }
    images = {"swebench/swesmith.x86_64.own_1776_clock.c0ffee00": image(root, "docker save")}
    cache, fix = tmp_path / "cache", "sed -i 's/60 -/60 */' clock.py"
    reward, said = play(row, images, cache, "cat clock.py; ls tests; git log --oneline --all; git status --short")
    assert reward == 0.0 and "60 - hours" in said and "test_new" not in said
    assert said.count("base") == 1, "the history does not have the repository without the bug"
    assert play(row, images, cache, solve=True)[0] == 1.0
    assert (
        play(row, images, cache, f"{fix}; rm -r tests; git add -A; git -c user.name=a -c user.email=b commit -qm a")[0]
        == 1.0
    )
    assert play(row, images, cache, f"{fix}; sed -i 's/x . 2/x/; s/x .. 2/x/' clock.py")[0] == 0.0, "another test broke"
    assert play(row, images, cache, "mkdir -p tests; echo 'def test_new(): pass' > tests/test_new.py")[0] == 0.0


def test_rows_get_the_image_the_command_and_the_parser_of_their_dataset() -> None:
    tests = {"FAIL_TO_PASS": ["t/test_a.py::a"], "PASS_TO_PASS": '["t/test_b.py::b", "t/test_a.py::c"]', "patch": "p"}
    smith = {
        "instance_id": "getmoto__moto.694ce1f4.lm_rewrite__x",
        "image_name": "jyangballin/swesmith.x86_64.moto",
        **tests,
    }
    task = gym.make(ENV_ID, tasks=[{**smith, "problem_statement": "x"}]).unwrapped.tasks[0].task
    assert (task.docker_image, task.base_commit) == ("jyangballin/swesmith.x86_64.moto", "gym_llm_base")
    assert (task.hidden_files, task.kept_files) == (["t/test_a.py"], ["t/test_a.py", "t/test_b.py"])
    assert task.test_command.startswith("source /opt/miniconda3/bin/activate testbed; pytest --disable-warnings")
    assert task.test_command.endswith(" {files}") and task.log_parser == "pytest_progress"
    ruby = {"repo": "jekyll/jekyll", "version": "8761", "instance_id": "jekyll__jekyll-8761"}
    assert with_image(ruby)["log_parser"] == "cucumber"
    hub = with_image({**ruby, "image": "i", "log_parser": "parse_log_jekyll", "eval_script": "s"})
    assert (hub["log_parser"], hub["image"], "test_command" in hub) == ("cucumber", "i", False)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": "1"}, "version '1'"),
        ({"eval_script": "s", "log_parser": "parse_log_carg"}, "Did you mean cargo"),
        ({"eval_script": "s", "log_parser": "parse_log_p5js"}, "no log parser 'p5js'"),
    ],
)
def test_rows_without_a_known_version_or_parser_are_refused(changed: dict[str, Any], said: str) -> None:
    row = {"repo": "tokio-rs/axum", "version": "2096", "instance_id": "tokio-rs__axum-2096", "base_commit": "c"}
    row |= {"FAIL_TO_PASS": ["a"], "PASS_TO_PASS": [], "problem_statement": "x"}
    with pytest.raises(DataError, match=said):
        gym.make(ENV_ID, tasks=[row | changed])


@pytest.mark.parametrize(
    ("parser", "log"),
    [
        ("doctest", '<doctest><TestCase name="a">' + "<SubCase>" * 20_000 + "<Expression>" * 20_000),
        ("doctest", f'<doctest><TestCase name="{"a" * 200_000}">' + "<SubCase/>" * 20_000),
        ("phpunit", "a" * 200_000 + " (x)\n" + "".join(f"✔ {number}\n" for number in range(20_000))),
        (
            "karma",
            "Starting browser\n"
            + "  a\n   b\n    c\n  d\n" * 20_000
            + "".join(f"✔ {number}\n" for number in range(20_000)),
        ),
        ("django", (" ... Internal Server Error: /" * 10_000 + "x\nok\n") * 3),
        ("django", " ... Testing against Django installed in x\n silenced).\nokx\n" * 20_000),
        ("pytest_options", ("PASSED " + "a[]" * 100_000 + "\n") * 3),
        ("sympy", "_ a.py:b _" * 50_000 + "\n"),
    ],
    ids=[
        "nested subcases",
        "a long case",
        "a long suite",
        "nested suites",
        "errors",
        "interrupted",
        "brackets",
        "lines",
    ],
)
def test_hostile_suites_take_a_log_parser_little_time_and_memory(parser: str, log: str) -> None:
    began = time.process_time()
    states = PARSERS[parser](log)
    assert time.process_time() - began < 2.0
    assert sum(map(len, states)) < 4 * len(log)


@pytest.mark.parametrize("parser", ["", "cargo"])
def test_a_long_log_holds_up_no_other_episode(parser: str) -> None:
    log = "test a ... ok\n" * 1_000_000 + "PASSED a\n"
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - began)

    async def judged() -> float:
        ticking = asyncio.create_task(tick())
        reward = (await verdict_of(log, ["a"], [], parser)).reward
        ticking.cancel()
        return reward

    assert asyncio.run(judged()) == 1.0
    began = time.monotonic()
    assert verdict(log, ["a"], [], parser).reward == 1.0
    assert longest < (time.monotonic() - began) / 2


@pytest.mark.parametrize(
    ("log", "name", "parser"),
    [
        ("astropy/t.py::test_a PASSED\nastropy/t.py::test_b FAILED", "astropy/t.py::test_a", "astropy"),
        ("t.py::test_a PASSED [ 50%]", "t.py::test_a", "seaborn"),
        ("t.py::test_a PASSED (0.01s) [ 50%]", "t.py::test_a", ""),
        ("t.py::test_a[x y] PASSED [ 50%]", "t.py::test_a[x y]", ""),
        ("[gw1] [ 50%] PASSED t.py::test_a", "t.py::test_a", ""),
        ("PASSED t.py::a[log(photon /s)]\nPASSED t.py::a[log(photon /m)]", "t.py::a[log(photon", "astropy"),
        ("PASSED t.py::test_a[a-b c]", "t.py::test_a[a-b", "astropy"),
        ("PASSED t.py::c[MouseButton.LEFT-MouseButton.RIGHT]", "t.py::c[1-3]", "matplotlib"),
        ("t.py::c[MouseButton.RIGHT-MouseButton.MIDDLE] PASSED [ 5%]", "t.py::c[3-2]", ""),
        ("test_a (app.T) ...\n  Creating table\n    Running deferred SQL...\nok", "test_a (app.T)", ""),
        ("PASSED t.py::a[/usr/lib/x]", "t.py::a[/x]", "requests"),
        ("PASSED t.py::a[\x0e\x1fx]", "t.py::a[x]", "sphinx"),
        ("\x1b[32mPASSED\x1b[0m t.py::a", "t.py::a", "sphinx"),
        ("test_a (app.T) ... Creating table x\nok", "test_a (app.T)", "django"),
        ("test_a (app.T) ... System check identified no issues (0 silenced)\nok", "test_a (app.T)", "django"),
        ("test_a (app.T) ... Internal Server Error: /a/b/\nok", "test_a (app.T)", "django"),
        ("t (a.T) ... Testing against Django installed in '/x' (0\n silenced).\nok", "t (a.T)", "django"),
        ("test_a (app.T) ...  OK", "test_a (app.T)", "django"),
        ("Adds two. ... ok", "Adds two.", "django"),
        ("test_a ok", "test_a", "sympy"),
        ("test_a (app.T) ... expected failure", "test_a (app.T)", ""),
    ],
)  # fmt: skip
def test_python_logs_are_read_by_their_own_parser_and_by_the_general_one(log: str, name: str, parser: str) -> None:
    failing = (
        re.sub(r"PASSED", "FAILED", log) if "PASSED" in log else re.sub(r"(?i)\bok$|expected failure", "FAIL", log)
    )
    for reader in dict.fromkeys((parser, "")):
        assert verdict(log, [name], [name], reader).reward == 1.0
        assert verdict(failing, [name], [], reader).reward == verdict(failing, [], [name], reader).reward == 0.0
        assert verdict(log, [f"{name}x"], [], reader).reward == 0.0


def test_a_shortened_name_stands_for_tests_that_all_pass_and_a_skipped_test_is_kept() -> None:
    log = "PASSED t.py::a[x y]\nFAILED t.py::a[x z]\nPASSED t.py::b[q r]\nSKIPPED t.py::c\nSKIPPED [1] t.py:5: why"
    for parser in ("", "astropy"):
        assert [verdict(log, [name], [], parser).reward for name in ("t.py::a[x", "t.py::b[q", "t.py::c")] == [0, 1, 0]
        assert [verdict(log, [], [name], parser).reward for name in ("t.py::b", "t.py::c", "[1]")] == [0, 1, 0]
