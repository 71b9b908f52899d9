"""Harbor: task folders and rows of SWE-bench, played in real machines."""

import asyncio
import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from harbor_tasks import cache, make, play, write_task
from testing import function_call, message, outputs

from gym_llm.envs.harbor import env as harbor
from gym_llm.envs.harbor.folder import folders_in, read_folder
from gym_llm.envs.harbor.rewards import RewardFileError
from gym_llm.envs.harbor.session import folder_plan
from gym_llm.envs.harbor.swe_bench import passed_tests
from gym_llm.errors import DataError, SandboxError, UsageError
from gym_llm.sandbox.machines.machine import MachineLimits

OWN = Path(harbor.__file__).with_name("data") / "tasks"
TASKS = sorted(path.name for path in OWN.iterdir())
__all__ = ["cache"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_its_solution_solves_a_task_and_nothing_does_not(name: str, cache: str):
    row = {"task": name}
    assert play(make(cache), row)[0] == 0.0
    assert play(make(cache, solve=True), row)[0] == 1.0
    script = (OWN / name / "solution" / "solve.sh").read_text()
    assert play(make(cache), row, script)[0] == 1.0


def test_there_are_five_tasks_and_each_asks_its_instruction(cache: str):
    env = make(cache, tasks=str(OWN))
    assert env.num_tasks == len(TASKS) == 5
    asked = [env.reset(options={"task_index": index})[0]["input"][0]["content"] for index in range(5)]
    assert asked == [(OWN / name / "instruction.md").read_text().strip() for name in TASKS]
    rows = [json.loads(line) for line in (OWN.parent / "example.jsonl").read_text().splitlines()]
    assert {row["task"]: row["responses_create_params"]["input"][0]["content"] for row in rows} == dict(
        zip(TASKS, asked, strict=True)
    )


@pytest.mark.slow
def test_the_shell_says_what_came_of_a_command(cache: str):
    env = make(cache, output_characters=200)
    commands = ["echo a; echo b >&2; exit 3", "pwd; ls /tests /solution", "seq 1000", "true"]
    _, info, said = play(env, {"task": "fix-script"}, *commands)
    assert said[0] == "a\n[stderr]\nb\n[exit code 3]"
    assert said[1].startswith("/app\n[stderr]\n") and "/tests" in said[1] and "/solution" in said[1]
    assert "characters are left out …]" in said[2] and said[2].endswith("1000\n[exit code 0]")
    assert said[3] == "[exit code 0]" and info["tool_errors"] == 0
    env.reset(options={"task": {"task": "fix-script"}})
    answers = [{"command": "sleep 30", "timeout_sec": 0.2}, {"command": "\0"}, {"command": "true", "timeout_sec": -1}]
    said = [outputs(env.step([function_call("shell", one)])[0])[-1] for one in answers]
    assert said[0] == "[exit code 124: it took too long]"
    assert "null characters" in said[1] and "above 0" in said[2]
    env.close()


@pytest.mark.slow
def test_a_fork_has_a_container_of_its_own(cache: str):
    env = make(cache)
    env.reset(options={"task": {"task": "fix-script"}})
    (early,) = env.fork(1)  # before the container has started
    env.step([function_call("shell", {"command": "echo 1 > /app/note"})])
    (late,) = env.fork(1)
    late.step([function_call("shell", {"command": (OWN / "fix-script" / "solution" / "solve.sh").read_text()})])
    look = [function_call("shell", {"command": "cat /app/note"})]
    assert [outputs(one.step(look)[0])[-1].split("\n")[0] for one in (env, late)] == ["1", "1"]
    assert "No such file" in outputs(early.step(look)[0])[-1]
    assert [one.step(message("Done."))[1] for one in (env, early, late)] == [0.0, 0.0, 1.0]


@pytest.mark.slow
def test_time_that_is_used_up_ends_commands_not_the_episode(cache: str, tmp_path: Path):
    row = write_task(tmp_path, "echo 1 > /logs/verifier/reward.txt", "[agent]\ntimeout_sec = 0.5\n")
    reward, info, said = play(make(cache), row, "sleep 5", "echo more")
    assert reward == 1.0 and "used up" in said[1] and info["commands_seconds_left"] is False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "reward"),
    [
        ("echo 0.25 > /logs/verifier/reward.txt; exit 1", 0.25),
        ('echo 0 > /logs/verifier/reward.txt; echo \'{"reward": 1, "x": 0}\' > /logs/verifier/reward.json', "differ"),
        ('echo 1 > /logs/verifier/reward.txt; echo \'{"a": 0.5, "b": 1}\' > /logs/verifier/reward.json', "differ"),
        ('echo 0.75 > /logs/verifier/reward.txt; echo \'{"a": 0.5, "b": 1}\' > /logs/verifier/reward.json', 0.75),
        ("echo 0.3333 > /logs/verifier/reward.txt; echo '{\"reward\": 0.33333}' > /logs/verifier/reward.json", 0.33333),
        ("echo > /logs/verifier/reward.txt; echo '{\"reward\": 1}' > /logs/verifier/reward.json", "empty reward.txt"),
        ('echo \'{"a": 1, "b": 0}\' > /logs/verifier/reward.json', 0.5),
        ("true", "neither reward.json nor reward.txt"),
        ("touch /logs/verifier/reward.txt", "empty reward.txt"),
        ("echo good > /logs/verifier/reward.txt", "cannot be read"),
        ("echo nan > /logs/verifier/reward.txt", "not finite"),
        ("echo '{\"reward\": true}' > /logs/verifier/reward.json", "is not a number"),
        ("echo '{}' > /logs/verifier/reward.json", "no rewards"),
        ("echo '{' > /logs/verifier/reward.json", "cannot be read"),
        ("mkdir /logs/verifier/reward.json", "cannot be read"),
    ],
)
def test_the_reward_is_what_the_verifier_left_or_there_is_none(test: str, reward: Any, cache: str, tmp_path: Path):
    row = write_task(tmp_path, f"#!/bin/bash\n{test}\n")
    if isinstance(reward, float):
        assert play(make(cache), row)[0] == reward
        return
    with pytest.raises(RewardFileError, match=reward):
        play(make(cache), row)


@pytest.mark.slow
def test_a_reward_that_the_model_wrote_does_not_count(cache: str, tmp_path: Path):
    row = write_task(
        tmp_path, "#!/bin/bash\nls -A /logs/verifier /tests; test -e /tmp/x && echo 0 > /logs/verifier/reward.txt\n"
    )
    forge = (
        "touch /tmp/x; echo 1 > /logs/verifier/reward.json; mkdir -p /tests /mine; echo 'echo 1' > /tests/test.sh;"
        "rm -r /logs; ln -s /mine /logs; mkdir /mine/verifier; echo 1 > /mine/verifier/reward.json;"
        "(while sleep 0.01; do echo 1 > /logs/verifier/reward.json; done) > /dev/null 2>&1 &"
    )
    assert play(make(cache), row, forge)[0] == 0.0
    shell = (
        "rm /bin; mkdir /bin; printf '#!/usr/bin/python3\\nprint(1)' > /bin/bash; cp /bin/bash /bin/sh; chmod +x /bin/*"
    )
    assert play(make(cache), row, "touch /tmp/x", shell)[0] == 0.0


@pytest.mark.slow
def test_variables_users_and_folders_are_as_the_task_says(cache: str, tmp_path: Path):
    settings = """
        [environment]
        env = {COLOUR = "red"}
        workdir = "work"
        [agent]
        user = "nobody"
        [verifier]
        env = {EXPECTED = "7"}
    """
    dockerfile = 'FROM host\nENV SIZE="a b" \\\n  # why\n  OTHER=$COLOUR\nWORKDIR /srv\nRUN ["touch", "made here"]\n'
    row = write_task(tmp_path, '#!/bin/bash\necho "$EXPECTED" > /logs/verifier/reward.txt\n', settings, dockerfile)
    reward, _, said = play(make(cache), row, "pwd; id -un; echo $COLOUR $SIZE; ls ..")
    assert reward == 7.0 and said == ["/srv/work\nnobody\nred a b\nmade here\nwork\n[exit code 0]"]


def write_steps(folder: Path, strategy: str) -> dict[str, Any]:
    settings = f'multi_step_reward_strategy = "{strategy}"\n'
    settings += '[[steps]]\nname = "one"\nmin_reward = 0.5\n[[steps]]\nname = "two"\n'
    row = write_task(folder, "", settings)
    (folder / "tests" / "test.sh").unlink()
    for name in ("one", "two"):
        for part in ("tests", "workdir"):
            (folder / "steps" / name / part).mkdir(parents=True)
        (folder / "steps" / name / "instruction.md").write_text(f"Step {name}.")
        (folder / "steps" / name / "tests" / "test.sh").write_text(
            f"#!/bin/bash\ncat /{name} > /logs/verifier/reward.txt\n"
        )
        (folder / "steps" / name / "workdir" / "setup.sh").write_text(f"echo 0 > /{name}\n")
    return row


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "rewards"), [("mean", (0.9, 0.2)), ("final", (1.0, 0.4))])
def test_steps_follow_each_other_while_they_earn_enough(strategy: str, rewards: Any, cache: str, tmp_path: Path):
    env = make(cache)
    observation, _ = env.reset(options={"task": write_steps(tmp_path, strategy)})
    assert observation["input"][-1]["content"] == "Step one."
    env.step([function_call("shell", {"command": "echo 0.8 > /one"})])
    observation, _, terminated, *_ = env.step(message("Done."))
    assert not terminated and observation["input"][-1]["content"] == "Step two."
    env.step([function_call("shell", {"command": "echo 1 > /two"})])
    _, reward, terminated, _, info = env.step(message("Done."))
    assert terminated and reward == pytest.approx(rewards[0]) and info["steps_reached"] == 2
    assert info["reward_components"] == {"one": 0.8, "two": 1.0}
    reward, info, _ = play(env, {"task": str(tmp_path)}, "echo 0.4 > /one")
    assert reward == pytest.approx(rewards[1]) and info["steps_reached"] == 1


@pytest.mark.slow
def test_an_episode_goes_on_from_a_snapshot(cache: str, tmp_path: Path):
    script = (OWN / "fix-script" / "solution" / "solve.sh").read_text()
    _, info, _ = play(make(cache, snapshots=str(tmp_path)), {"task": "fix-script"}, "true", script)
    before, after = info["snapshots"]
    assert play(make(cache), {"task": "fix-script", "snapshot": before})[0] == 0.0
    assert play(make(cache), {"task": "fix-script", "snapshot": after})[0] == 1.0


@pytest.mark.slow
def test_an_episode_can_be_copied_until_its_machine_runs(cache: str):
    env = make(cache)
    env.reset(options={"task_index": 0})
    copied = pickle.loads(pickle.dumps(env))
    env.step([function_call("shell", {"command": "true"})])
    with pytest.raises(SandboxError, match="stayed"):
        pickle.loads(pickle.dumps(env)).step([function_call("shell", {"command": "true"})])
    assert copied.step(message("Done."))[1] == env.step(message("Done."))[1] == 0.0


@pytest.mark.slow
def test_in_a_notebook_each_step_has_an_event_loop_of_its_own(cache: str):
    env = make(cache)

    async def step(action: Any) -> Any:
        return env.step(action)

    env.reset(options={"task": {"task": "fix-script"}})
    asyncio.run(step([function_call("shell", {"command": "echo 7 > /x"})]))
    observation, *_ = asyncio.run(step([function_call("shell", {"command": "cat /x"})]))
    assert outputs(observation)[-1] == "7\n[exit code 0]"
    assert asyncio.run(step(message("Done.")))[1] == 0.0


def test_a_copied_episode_is_the_same_episode(cache: str):
    env = make(cache)
    env.reset(options={"task_index": 0})
    assert pickle.loads(pickle.dumps(env)).episode.task_index == copy.deepcopy(env).episode.task_index == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("[environment]\ngpus = 1", "needs GPUs, which is not supported"),
        ('[environment]\nos = "windows"', "an operating system other than linux"),
        ('[verifier]\nenvironment_mode = "separate"', "a machine of its own for the verifier"),
        ('[verifier]\nenv = {KEY = "${OPENAI_API_KEY}"}', r"variables of this machine \(KEY\)"),
        ("[agent]\ntimeout_sec = -1", "agent.timeout_sec: Input should be greater than 0"),
        ('[[steps]]\nname = "../x"', "folder of steps/"),
        ("[agent", "task.toml cannot be read"),
    ],
)
def test_a_task_that_cannot_be_played_here_is_refused(settings: str, said: str, cache: str, tmp_path: Path):
    row = write_task(tmp_path, "", settings)
    with pytest.raises(DataError, match=said):
        make(cache).reset(options={"task": row})


def test_settings_of_older_tasks_are_read(tmp_path: Path):
    write_task(tmp_path, "", '[environment]\nmemory = "1.5G"\nstorage = "512 MB"\nallow_internet = false\n')
    environment = read_folder(str(tmp_path)).settings.environment
    assert (environment.memory_mb, environment.storage_mb, environment.network_mode) == (1536, 512, "no-network")
    write_task(tmp_path / "b", "", '[environment]\nmemory = "1G"\nmemory_mb = 300\nallow_internet = true\n')
    environment = read_folder(str(tmp_path / "b")).settings.environment
    assert (environment.memory_mb, environment.network_mode) == (300, "public")
    for size in ("much", "0G", "-1G", "1" * 400):
        write_task(tmp_path / size[:9], "", f'[environment]\nstorage = "{size}"\n')
        with pytest.raises(DataError, match="not a size"):
            read_folder(str(tmp_path / size[:9]))


def test_a_task_of_terminal_bench_1_is_named_as_one(cache: str, tmp_path: Path):
    (tmp_path / "hello").mkdir()
    (tmp_path / "hello" / "task.yaml").write_text("instruction: Say hello.\n")
    for tasks in (tmp_path, tmp_path / "hello"):
        with pytest.raises(DataError, match="hello is of terminal-bench 1"):
            make(cache, tasks=str(tasks))


@pytest.mark.parametrize(("settings", "network"), [("", True), ('network_mode = "no-network"', False)])
def test_with_the_hosts_network_a_task_has_it_unless_it_says_no(settings: str, network: bool, tmp_path: Path):
    write_task(tmp_path, "", f"[environment]\n{settings}\n")
    folder = read_folder(str(tmp_path))
    assert folder_plan(folder, MachineLimits(), "host", None).network is network
    assert folder_plan(folder, MachineLimits(), "none", None).network is False


def test_a_network_is_refused_without_the_option(cache: str, tmp_path: Path):
    row = write_task(tmp_path, "", '[environment]\nnetwork_mode = "public"\n')
    with pytest.raises(DataError, match="network_mode 'public'"):
        make(cache).reset(options={"task": row})
    (tmp_path / "task.toml").write_text('[environment]\nnetwork_mode = "allowlist"\n')
    with pytest.raises(DataError, match="allowlist"):
        make(cache, network="host").reset(options={"task": row})


@pytest.mark.slow
def test_an_image_is_never_put_in_anothers_place_silently(cache: str, tmp_path: Path):
    row = write_task(tmp_path, "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n", dockerfile="FROM ubuntu:24.04\n")
    with pytest.raises(UsageError, match=r"There is no image 'ubuntu:24\.04': give images"):
        play(make(cache, registries=[]), row)
    assert play(make(cache, images={"ubuntu:*": "host"}), row)[0] == 1.0


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"backend": "vm"}, "backend"),
        ({"network": "all"}, "network"),
        ({"output_characters": 1}, "output_characters"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(kwargs: dict[str, Any], said: str, cache: str):
    with pytest.raises(ValueError, match=said):
        make(cache, **kwargs)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"task": "no-such"}, "task folder"),
        ({}, "no `input`, no `task`"),
        ({"problem_statement": "x", "instance_id": "a", "FAIL_TO_PASS": ["x"]}, "names its `image`"),
        ({"problem_statement": "x", "instance_id": "a", "image": "i"}, "FAIL_TO_PASS"),
        ({"problem_statement": "x", "instance_id": "a", "image": "i", "FAIL_TO_PASS": ["x"]}, "its `base_commit`"),
        ({"task": "fix-script", "instance_id": "a"}, "a row has `task`"),
    ],
)
def test_a_row_that_is_none_is_refused(row: dict[str, Any], said: str, cache: str):
    with pytest.raises(DataError, match=said):
        make(cache).reset(options={"task": row})


def test_folders_are_found_and_their_absence_told(tmp_path: Path):
    assert [Path(path).name for path in folders_in(str(OWN))] == TASKS
    assert folders_in(str(OWN / "fix-script")) == [str(OWN / "fix-script")]
    assert read_folder(str(OWN / "fix-script")).steps[0].solution is not None
    with pytest.raises(DataError, match="has no task folders"):
        folders_in(str(tmp_path))


_SETUP = """
git init -q . && git config user.email a@b && git config user.name a
printf 'def double(x):\\n    return x + x + 1\\n\\n\\ndef same(x):\\n    return x\\n' > maths.py
cat > test_maths.py <<'END'
import unittest
import maths


class T(unittest.TestCase):
    def test_same(self):
        self.assertEqual(maths.same(2), 2)
END
git add . && git commit -qm base && git tag base
"""
_PATCH = """diff --git a/maths.py b/maths.py
--- a/maths.py
+++ b/maths.py
@@ -1,2 +1,2 @@
 def double(x):
-    return x + x + 1
+    return x + x
"""
_TEST_PATCH = """diff --git a/test_maths.py b/test_maths.py
--- a/test_maths.py
+++ b/test_maths.py
@@ -5,3 +5,6 @@
 class T(unittest.TestCase):
     def test_same(self):
         self.assertEqual(maths.same(2), 2)
+
+    def test_double(self):
+        self.assertEqual(maths.double(2), 4)
"""
_ROW = {
    **{"instance_id": "own__maths-1", "image": "host", "problem_statement": "double(2) is 5."},
    **{"base_commit": "base", "patch": _PATCH, "test_patch": _TEST_PATCH, "setup_command": _SETUP},
    **{"FAIL_TO_PASS": '["test_double (test_maths.T.test_double)"]', "test_command": "python3 -m unittest -v"},
    "PASS_TO_PASS": ["test_same (test_maths.T.test_same)"],
}


@pytest.mark.slow
def test_a_row_of_swe_bench_earns_what_its_tests_say(cache: str):
    reward, info, _ = play(make(cache), _ROW)
    assert (reward, info["resolved"], info["pass_to_pass"]) == (0.0, False, 1)
    assert info["not_passed"] == "test_double (test_maths.T.test_double)"
    assert play(make(cache, solve=True), _ROW)[0] == 1.0
    fix = "sed -i 's/ + 1//' maths.py; rm test_maths.py; echo 'broken(' > test_maths.py"
    assert play(make(cache), _ROW, fix)[0] == 1.0, "the tests are the test patch's, whatever the model made of them"
    assert play(make(cache), _ROW, "sed -i 's/ + 1//; s/return x$/return 0/' maths.py")[0] == 0.0


_FIX = "sed -i 's/ + 1//' maths.py"
_CLAIMS = "PASSED test_double (test_maths.T.test_double)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "reward"),
    [
        (_FIX, 1.0),
        (f"{_FIX}; git add -A; git commit -qm fixed; git tag -f other; git checkout -q --detach", 1.0),
        (f"{_FIX}; touch .git/index.lock; git config diff.noprefix true; git config color.ui always", 1.0),
        (f"{_FIX}; printf 'a\\377\\0' > 'new file'; mkdir d; touch d/e; ln -s /etc/passwd l", 1.0),
        (f"{_FIX}; git mv test_maths.py other.py; mkdir test_maths.py; touch test_maths.py/x", 1.0),
        ("sed -i 's/double(2), 4/double(2), 5/' test_maths.py", 0.0),
        ("git apply; printf 'import sys\\nsys.exit(0)\\n' > test_maths.py", 0.0),
        ("printf 'def double(x): return 4\\ndef same(x): return 0\\n' > maths.py", 0.0),
        ("rm -rf .git", 0.0),
        ("rm -rf /testbed", 0.0),
        (f"printf '#!/bin/sh\\necho {_CLAIMS}\\n' > /usr/local/bin/python3; chmod +x /usr/local/bin/python3", 0.0),
        (f"mkdir -p /opt/x; echo 'print({_CLAIMS!r})' > /opt/x/sitecustomize.py; echo /opt/x > /etc/x.pth", 0.0),
        ("git commit -q --allow-empty -m other; git tag -f base; sed -i 's/ + 1//' maths.py", 1.0),
        ("git replace -f base HEAD 2> /dev/null; printf '#!/bin/sh\\nexit 0' > .git/hooks/post-checkout", 0.0),
    ],
)
def test_of_a_models_work_on_a_repository_its_changes_alone_count(command: str, reward: float, cache: str):
    row = {**_ROW, "repo_dir": "/testbed", "setup_command": _SETUP}
    assert play(make(cache), row, command)[0] == reward


def test_names_of_tests_are_as_swe_bench_has_them():
    output = (
        "\x1b[32mPASSED\x1b[0m t.py::a[x y]\nFAILED t.py::b[x - z] - assert\nPASSED t.py::a[x - q]\nXFAIL t.py::c - why"
    )
    assert {"t.py::a[x y]", "t.py::a[x", "t.py::a[x - q]", "t.py::c", "t.py::c - why"} == passed_tests(output)
    assert passed_tests("PASSED t.py::a\nERROR t.py::a - teardown") == set()
    assert "t.py::a" in passed_tests("t.py::a <- b.py PASSED [ 5%]")
    assert "t.py::a[8]" in passed_tests("PASSED t.py::a[MouseButton.BACK]")
    assert passed_tests("test_a ok    [FAIL]\ntest_b F\ntest_c ok     [OK]") == {"test_a", "test_c"}
