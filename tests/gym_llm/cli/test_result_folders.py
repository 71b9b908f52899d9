"""Commands that read rollouts take the folder that `gym-llm eval` writes."""

from __future__ import annotations

import pytest

from gym_llm.cli import main

SUMS = "gym_llm/Arithmetic-v0"


@pytest.mark.parametrize(
    "argv",
    [
        ["show", "one"],
        ["health", "one"],
        ["export", "one", "--to", "openai-chat", "--output", "chats.jsonl"],
        ["filter", "one", "--output", "tasks.jsonl"],
        ["reverify", "one", "--env", SUMS],
        ["profile", SUMS, "--rollouts", "one"],
        ["compare", "one", "one"],
        ["view", "one", "--export", "page.html"],
    ],
)
def test_a_folder_of_one_engine_stands_for_its_file(
    argv: list[str], in_an_empty_folder: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, engines in (("one", ["constant:4"]), ("two", ["a=constant:4", "b=constant:5"])):
        named = [word for engine in engines for word in ("--engine", engine)]
        assert main(["eval", SUMS, "--limit", "2", "--repeats", "2", "--quiet", "--output", folder, *named]) == 0
    assert main(argv) in (0, 1) and "gym-llm:" not in capsys.readouterr().err
    if argv[0] not in ("compare", "view"):
        assert main(["two" if word == "one" else word for word in argv]) == 2
        assert "two has 2 rollout files: name one of two/records/a.jsonl, two/records/b" in capsys.readouterr().err
