"""Records episodes of slower worlds from other frameworks themselves: `python foreign_worlds.py NAME COUNT FILE.jsonl`.

See `foreign_games.py`. `tau2` needs the variable TAU2_SOURCE, the folder of a checkout; `browsergym` needs Chromium,
and `scienceworld` Java.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.pop(0)  # scripts beside this one have the names of frameworks
_PEERS = Path(__file__).resolve().parent.parent / "envs" / "theirs" / "peers"
_STEPS = 20
_SIZES = ("nb_rooms", "nb_objects", "quest_length")
_BID = re.compile(r"\[(\d+)\] (\w+)")
_PAGES = (
    *("click-test", "click-test-2", "click-link", "click-button", "click-checkboxes", "click-dialog", "enter-text"),
    *("click-option", "enter-password", "login-user", "choose-list", "click-tab", "focus-text", "navigate-tree"),
    *("simple-arithmetic", "read-table", "click-widget", "grid-coordinate", "find-word", "click-button-sequence"),
)


def textworld(count: int) -> Iterator[dict[str, Any]]:
    """Nine episodes of each game: to compile one takes seconds."""
    import textworld as framework
    import textworld.gym as adventures

    names = ("max_score", "won", "lost", "admissible_commands", "policy_commands")
    for seed in itertools.count():
        kwargs = dict(zip(_SIZES, (2 + seed % 3, 4 + seed % 4, 2 + seed % 3), strict=True))
        with tempfile.TemporaryDirectory() as folder:
            options = framework.GameOptions()
            options.seeds, options.path = seed, f"{folder}/game.z8"
            options.nb_rooms, options.nb_objects, options.quest_length = kwargs.values()
            path, _ = framework.make(options)
            infos = framework.EnvInfos(**dict.fromkeys(names, True))
            for number in range(9):  # what wins, what is possible, and anything
                kind, draw = number % 3, random.Random(9 * seed + number)
                env = adventures.make(adventures.register_game(path, infos, max_episode_steps=_STEPS))
                observation, info = env.reset()
                episode: dict[str, Any] = {"framework": "textworld", "version": version("textworld"), "env": "custom"}
                episode |= {"seed": seed, "kwargs": kwargs, "actions": [], "observations": [observation]}
                episode["rewards"], done, score = [0], False, 0
                while not done:
                    commands = list(info["policy_commands"][:1] if kind == 0 else info["admissible_commands"])
                    if kind == 2 and draw.random() < 0.3:
                        commands = ["", "dance", "take everything", "go nowhere"]
                    action = draw.choice(commands or ["look"])
                    observation, new, done, info = env.step(action)
                    episode["actions"].append(action)
                    episode["observations"].append(observation)
                    episode["rewards"].append(new - score)
                    score = new
                env.close()
                yield {**episode, "done": True}


def scienceworld(count: int) -> Iterator[dict[str, Any]]:
    """Commands that are drawn from those that are possible, and invalid ones."""
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:+UnlockExperimentalVMOptions -XX:hashCode=2"  # else a set's order is random
    import scienceworld as framework

    env = framework.ScienceWorldEnv("", envStepLimit=_STEPS)
    tasks = env.get_task_names()
    for number in itertools.count():
        task, draw = tasks[number % len(tasks)], random.Random(number)
        env.load(task, 0, "easy")
        choices = env.get_variations_train()
        variation = choices[number // len(tasks) % len(choices)]
        env.load(task, variation, "easy")
        observation, _ = env.reset()
        episode: dict[str, Any] = {"framework": "scienceworld", "version": version("scienceworld"), "env": task}
        episode |= {"seed": None, "actions": [], "observations": [observation], "rewards": [], "done": False}
        episode["kwargs"] = {"variation": variation, "simplification": "easy", "envStepLimit": _STEPS}
        kinds, things = env.get_possible_actions(), env.get_possible_objects()
        for _ in range(_STEPS):
            command = draw.choice(kinds) if draw.random() < 0.95 else "dance"
            while "OBJ" in command:
                command = command.replace("OBJ", draw.choice(things), 1)
            observation, reward, done, _ = env.step(command)
            episode["actions"].append(command)
            episode["observations"].append(observation)
            episode["rewards"].append(reward)
            if done:
                episode["done"] = True
                break
        yield episode


def browsergym(count: int) -> Iterator[dict[str, Any]]:
    """Pages of MiniWoB++: clicks, texts, and actions that fail."""
    spec = importlib.util.spec_from_file_location("peer", _PEERS / "browsergym.py")
    assert spec is not None and spec.loader is not None
    peer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    os.environ["PLAYWRIGHT_BROWSERS_PATH"] = peer._browsers()  # where Chromium is
    import browsergym.miniwob
    import gymnasium
    import miniwob
    from browsergym.utils.obs import flatten_axtree_to_str

    assert browsergym.miniwob
    os.environ["MINIWOB_URL"] = f"file://{Path(miniwob.__file__).parent}/html/miniwob/"
    for number in itertools.count():
        page, draw = _PAGES[number % len(_PAGES)], random.Random(number)
        env = gymnasium.make(f"browsergym/miniwob.{page}", headless=True)
        seen, _ = env.reset(seed=number)
        tree = flatten_axtree_to_str(seen["axtree_object"])
        episode: dict[str, Any] = {"framework": "browsergym", "version": version("browsergym-core")}
        episode |= {"env": f"browsergym/miniwob.{page}", "seed": number, "kwargs": {"headless": True}, "actions": []}
        episode |= {"observations": [{"goal": seen["goal"], "axtree": tree, "url": seen["url"]}], "rewards": []}
        episode["done"] = False
        while not episode["done"] and len(episode["actions"]) < 3:
            action = draw.choice(["noop()", "click('9999')", "dance()"])
            if draw.random() < 0.85 and (bids := _BID.findall(tree)):
                bid, role = draw.choice(bids)
                action = f"fill('{bid}', 'Ann')" if role == "textbox" else f"click('{bid}')"
            seen, reward, terminated, truncated, _ = env.step(action)
            tree = flatten_axtree_to_str(seen["axtree_object"])
            episode["actions"].append(action)
            episode["observations"].append({"axtree": tree, "last_action_error": seen["last_action_error"]})
            episode["rewards"].append(float(reward))
            episode["done"] = bool(terminated or truncated)
        env.close()
        yield episode


def tau2(count: int) -> Iterator[dict[str, Any]]:
    """Its Gymnasium environment, alone in mock and telecom; in retail the user says prepared texts.

    Some copies of its repository lack the large files of telecom, which is left out then.
    """
    os.environ["TAU2_DATA_DIR"] = data = f"{os.environ['TAU2_SOURCE']}/data"
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    from loguru import logger

    logger.disable("tau2")
    from tau2.registry import registry  # isort: skip (the domains come first: the other modules import each other)

    import tau2.user.user_simulator as simulating
    from tau2.data_model.message import AssistantMessage
    from tau2.gym.gym_agent import AgentGymEnv
    from tau2.user.user_simulator_base import STOP

    texts: list[str] = []

    def generate(*_: Any, **__: Any) -> Any:
        return AssistantMessage(role="assistant", content=texts.pop(0) if texts else STOP)

    simulating.generate = generate
    domains = [
        name for name in ("mock", "telecom", "retail") if Path(data, "tau2/domains", name, "tasks.json").exists()
    ]
    pairs = [(domain, task) for domain in domains for task in registry.get_tasks_loader(domain)()]
    pairs = [(domain, task) for domain, task in pairs if not (domain == "retail" and _is_judged(task))]
    for number in itertools.count():
        (domain, task), draw = pairs[number % len(pairs)], random.Random(number)
        solo, said = domain != "retail", [f"I have request {n}." for n in range(1 + number % 3)]
        texts[:] = said
        actions = _actions(task, draw, number // len(pairs) + number % 2, solo)
        env = AgentGymEnv(domain, task.id, solo_mode=solo)
        observation, _ = env.reset(seed=number)
        episode: dict[str, Any] = {"framework": "tau2", "version": version("tau2"), "env": domain, "seed": number}
        episode |= {"kwargs": {"task_id": task.id, "solo_mode": solo, **({} if solo else {"user": said})}}
        episode |= {"actions": [], "observations": [observation], "rewards": [], "done": False}
        try:
            for action in actions:
                observation, reward, done, *_ = env.step(action)
                episode["actions"].append(action)
                episode["observations"].append(observation)
                episode["rewards"].append(float(reward))
                if done:
                    episode["done"] = True
                    break
        except Exception as error:  # its evaluators raise where the database lacks what they read
            print(f"{domain} {task.id}: left out: {error!r}"[:200], file=sys.stderr)
            continue
        yield episode


def _is_judged(task: Any) -> bool:
    criteria = task.evaluation_criteria
    basis = [kind.value for kind in criteria.reward_basis]
    return "NL_ASSERTION" in basis and bool(criteria.nl_assertions)


def _actions(task: Any, draw: random.Random, kind: int, solo: bool) -> list[str]:
    """The task's own calls; or some of them, with an unknown call and an invalid one between."""
    criteria = task.evaluation_criteria
    calls = [json.dumps({"name": each.name, "arguments": each.arguments}) for each in (criteria.actions or [])]
    if kind % 2:
        calls = [each for each in calls if draw.random() < 0.7]
        calls.insert(draw.randint(0, len(calls)), draw.choice(['dance(a="b")', "dance(", '{"name": "dance"}']))
    if solo:
        return [*calls, "done()"]
    return ["One moment, please.", *calls, *["Is there anything else?"] * 6]


if __name__ == "__main__":
    with open(sys.argv[3], "w") as file:
        for recorded in itertools.islice(globals()[sys.argv[1]](int(sys.argv[2])), int(sys.argv[2])):
            file.write(json.dumps(recorded) + "\n")
            file.flush()
