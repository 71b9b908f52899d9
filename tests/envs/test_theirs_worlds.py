"""Text worlds, NetHack and web pages: equal to the frameworks themselves, whose packages are in environments apart."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import message
from their_packages import own, python_of, replayed

from gym_llm.envs.theirs import room


def play(env_id: str, seed: int, said: list[str], **arguments: Any) -> tuple[list[str], list[float], dict[str, Any]]:
    """Texts, rewards and the last info."""
    env = gym.make(env_id, **arguments).unwrapped
    row = {"responses_create_params": {"input": []}, "seed": seed}
    observation, info = env.reset(options={"task": row})
    texts, rewards, over = [observation["input"][-1]["content"]], [], False
    for each in said:
        assert not over
        observation, reward, terminated, truncated, info = env.step(message(each))
        texts.append(observation["input"][-1]["content"])
        rewards.append(reward)
        over = terminated or truncated
    env.close()
    return texts, rewards, {**info, "over": over}


STORY = """
import jericho, json, tempfile, textworld
options = textworld.GameOptions()
options.seeds, options.nb_rooms, options.nb_objects, options.quest_length = 3, 3, 4, 3
options.path = tempfile.mkdtemp(prefix="gym-llm-test-") + "/game.z8"
env = jericho.FrotzEnv(textworld.make(options)[0], seed=5)
seen = [env.reset()[0]] + [env.step(command)[0] for command in ("go east", "look", "")]
import shutil, os
shutil.rmtree(os.path.dirname(options.path))
print(json.dumps(seen))
"""


@pytest.mark.slow
def test_a_story_is_jerichos_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = own("jericho", STORY)
    texts, rewards, info = play("gym_llm/Jericho-v0", 5, ["go east", "look", ""], game="textworld:3")
    assert (texts, rewards, info["over"]) == (seen, [0, 0, 0], False)
    episode = {"framework": "jericho", "version": "3.3.1", "env": "g3.z8", "seed": 5, "kwargs": {}}
    episode |= {"actions": ["go east", "look"], "observations": seen[:3], "rewards": [0, 0], "done": False}
    assert replayed(episode, tmp_path, capsys) == {"agreed": 1, "tried": 1, "skipped": {}}
    assert replayed({**episode, "rewards": [0, 1]}, tmp_path, capsys)["agreed"] == 0
    missing = replayed({**episode, "env": "zork1.z5"}, tmp_path, capsys)
    assert missing["tried"] == 0 and "JERICHO_GAMES" in next(iter(missing["skipped"]))


@pytest.mark.slow
def test_a_story_writes_no_files() -> None:
    python_of("jericho")
    said = ["save", "look. restore", "script on", "\0look", "x" * 2_000, "\ud83d"]
    texts, _, info = play("gym_llm/Jericho-v0", 1, said)
    refused = ["neither saves nor restores" in text for text in texts[1:]]
    assert refused == [True, True, True, False, True, False] and not info["over"]


NETHACK = """
import gymnasium, json, nle
env = gymnasium.make("NetHackScore-v0")
env.unwrapped.seed(core=7, disp=7, reseed=False)
env.reset()
steps = [env.step(action) for action in (2, 22, 3, 18, 4)]
print(json.dumps([[float(step[1]) for step in steps], [int(each) for each in steps[-1][0]["blstats"]]]))
"""


@pytest.mark.slow
def test_nethack_is_its_own_and_shows_the_terminal() -> None:
    own_rewards, (x, y, *_) = own("nethack", NETHACK)
    said = ["**East**", "search", "Now I go\n3", "down", "west"]
    texts, rewards, info = play("gym_llm/NetHack-v0", 7, said)
    assert rewards == own_rewards and not info["over"]
    assert "Answer with one action: more, north, east" in texts[0] and "far northeast" in texts[0]
    assert texts[-1].split("\n")[y + 1][x] == "@"


@pytest.mark.slow
def test_nethack_asks_again_for_an_action_that_does_not_exist() -> None:
    python_of("nethack")
    texts, rewards, info = play("gym_llm/NetHack-v0", 7, ["dance", "99", "9" * 5_000, "", "\ud83d", "north"])
    assert all("There is no action" in text for text in texts[1:-1]) and "There is no action" not in texts[-1]
    assert rewards[:-1] == [0.0] * 5 and not info["over"]


SCIENCE = """
import json, scienceworld
env = scienceworld.ScienceWorldEnv("", envStepLimit=30)
env.load("find-living-thing", 0, "easy", generateGoldPath=True)
gold = list(env.get_gold_action_sequence())
first, _ = env.reset()
steps = [env.step(command) for command in gold]
print(json.dumps([gold, [first] + [step[0] for step in steps], [step[1] for step in steps], steps[-1][3]["score"]]))
env.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="ScienceWorld needs Java.")
def test_scienceworlds_own_solution_earns_its_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold, seen, changes, score = own("scienceworld", SCIENCE)
    arguments = {"task": "find-living-thing", "variation": 0, "simplification": "easy", "max_steps": 30}
    texts, rewards, info = play("gym_llm/ScienceWorld-v0", 0, gold, **arguments)
    assert texts[0].endswith(seen[0]) and texts[1:-1] == seen[1:-1]
    assert info["over"] and info["success"] == (score == 100)
    assert sum(rewards) == pytest.approx(max(score, 0) / 100)
    episode = {"framework": "scienceworld", "version": "1.2.3", "env": "find-living-thing", "seed": None}
    episode |= {"kwargs": {"variation": 0, "simplification": "easy", "envStepLimit": 30}, "actions": gold}
    episode |= {"observations": seen, "rewards": changes, "done": True}
    assert replayed(episode, tmp_path, capsys) == {"agreed": 1, "tried": 1, "skipped": {}}


def test_without_java_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="Java 11"):
        room.Play.of("scienceworld", {}).reset(0)


def test_without_chromium_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="Chromium"):
        room.Play.of("browsergym", {}).reset(0)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="BrowserGym needs Chromium.")
def test_a_button_is_clicked_in_a_page() -> None:
    python_of("browsergym")
    said = ["noop(1e9)", "click('99')", "import os", "I click:\n```python\nclick('13')\n```"]
    texts, rewards, info = play("gym_llm/BrowserGym-v0", 1, said, env="miniwob.click-test")
    assert "Goal: Click the button." in texts[0] and "[13] button 'Click Me!'" in texts[0] and "fill(" in texts[0]
    assert "waits less than 10 s" in texts[1] and 'element with bid "99"' in texts[2] and "failed" in texts[3]
    assert (rewards, info["over"]) == ([0.0, 0.0, 0.0, 1.0], True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="BrowserGym needs Chromium.")
def test_a_page_is_shown_as_a_picture() -> None:
    python_of("browsergym")
    texts: Any
    texts, rewards, _ = play("gym_llm/BrowserGym-v0", 2, ["click('13')"], env="miniwob.click-test", pictures=True)
    kinds = [part["type"] for part in texts[0]]
    assert kinds == ["input_text", "input_text", "input_image"] and rewards == [1.0]
    assert texts[0][-1]["image_url"].startswith("data:image/png;base64,")


def test_only_short_waits_are_actions() -> None:
    found = room.load("browsergym")._LONG_WAIT.search
    assert not any(map(found, ["noop()", "noop(500)", "noop( wait_ms = 9999.5 )", "click('noop')"]))
    assert all(
        map(found, ["noop(1e9)", "noop(10000)", "noop (99999)", "noop(wait_ms=1e5)", "noop(500, 7)", "noop('5')"])
    )


def test_where_lines_break_is_not_compared() -> None:
    compared = room.load("browsergym").compared
    boxes = "\n\t\tInlineTextBox 'a'\n\t\tInlineTextBox 'b'"
    here = {"axtree": f"Root url='file:///a/miniwob/html/x.html'\n\tText 'a b'{boxes}"}
    there = {"axtree": "Root url='file:///b/c/miniwob/html/x.html'\n\tText 'a b'\n\t\tInlineTextBox 'a b'"}
    assert compared(here) == compared(there)
    assert compared(here) != compared({"axtree": here["axtree"].replace("Text 'a b'", "Text 'a'")})
