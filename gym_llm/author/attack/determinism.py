"""Checks that a verdict is the same again: in another order, another environment, another process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from gymnasium.error import ResetNeeded

from gym_llm.author.attack.attack_play import Turn, call, close, message, reasoning, says
from gym_llm.author.attack.context import Context, NotApplicable
from gym_llm.author.attack.gold import prompt_text

_REPEATS = 8


def script(context: Context) -> list[tuple[int, list[Turn]]]:
    """Episodes to compare: right, wrong and odd ones of each task."""
    episodes: list[tuple[int, list[Turn]]] = []
    for index, task in context.tasks.items():
        gold = context.golds.get(index)
        tools = [tool["name"] for tool in task.request.get("tools") or () if tool.get("name")][:1]
        episodes.append((index, says("I do not know.")))
        if gold is not None:
            episodes.append((index, gold.turns))
            if gold.text is not None:
                episodes.append((index, gold.say(gold.wrong)))
                every = " or ".join(each.text for _, each in context.known() if each.text)
                episodes.append((index, gold.say(every)))
                episodes.append((index, gold.say(f"{gold.wrong} or {gold.text}")))
                words = gold.text.split()
                if len(words) > 1:
                    episodes.append((index, gold.say(" ".join(reversed(words)))))
                    episodes.append((index, gold.say(" ".join(words[:-1]))))
        episodes.append((index, says(prompt_text(task)[:2_000])))
        episodes.append((index, says("red blue green one two three yes no maybe")))
        episodes += [(index, [[call(name, {})], [message("zebra")]]) for name in tools]
    return episodes


def rewards_of(context: Context, episodes: list[tuple[int, list[Turn]]]) -> list[Any]:
    """The reward of each, or how it ended otherwise."""
    results = []
    for index, turns in episodes:
        played = context.play(index, turns)
        results.append(played.ending)
    return results


def check_repeats(context: Context) -> None:
    """Play the same episodes in a fresh environment each, then in one: again and again, forwards and backwards."""
    episodes = script(context)
    alone = []
    moody = set()
    for number, (index, turns) in enumerate(episodes):
        context.player.fresh()
        endings = [context.play(index, turns).ending]
        alone.append(endings[0])
        if number % 3 == 1 or number < 12:
            context.player.fresh()
            endings += [context.play(index, turns).ending for _ in range(_REPEATS)]
        if len(set(endings[1:])) > 1:
            moody.add(number)
            _not_determined(context, index, turns, set(endings))
    context.options.update(alone=alone, episodes=json.dumps(episodes))
    context.player.fresh()
    again = rewards_of(context, episodes)
    backwards = rewards_of(context, episodes[::-1])[::-1]
    for name, results in (("in order", again), ("backwards", backwards)):
        for number, (index, turns) in enumerate(episodes):
            if alone[number] == results[number] or number in moody:
                continue
            seen = {alone[number], *_alone_again(context, index, turns)}
            if len(seen) > 1:
                moody.add(number)
                _not_determined(context, index, turns, seen)
            else:
                attack, expected = f"other episodes before it, {name}", f"{alone[number]}, as in a fresh environment"
                context.find("history", attack, "high", index, turns, expected, results[number])


def _alone_again(context: Context, index: int, turns: list[Turn]) -> Iterator[str]:
    for _ in range(_REPEATS):
        context.player.fresh()
        yield context.play(index, turns).ending


def _not_determined(context: Context, index: int, turns: list[Turn], endings: set[str]) -> None:
    got = " or ".join(sorted(endings))
    context.find("not determined", "again and again", "high", index, turns, "the same each time", got)


def check_left_behind(context: Context) -> None:
    """Leave an episode in its midst, play two environments in turn, and go on after the end."""
    known = context.known()
    for index, gold in known[:4]:
        context.player.fresh()
        base = context.play(index, says("I do not know.")).ending
        _abandon(context, index, gold.turns)
        after = context.play(index, says("I do not know.")).ending
        if after != base:
            context.find("history", "an episode left in its midst", "high", index, says("I do not know."), base, after)
    _interleave(context, known)
    _after_the_end(context)
    if not known:
        raise NotApplicable("no right answer is known: only the end was tried")


def _abandon(context: Context, index: int, turns: list[Turn]) -> None:
    env, task = context.player.env, context.tasks[index]
    first: list[Turn] = turns[:-1] if len(turns) > 1 else [[reasoning(str(turns)[:500])]]
    with suppress(Exception):
        context.player.reset(index, task, turns)
        for turn in first:
            env.step(turn)


def _interleave(context: Context, known: list[tuple[int, Any]]) -> None:
    if len(known) < 2:
        return
    (one, gold), (two, _) = known[0], known[1]
    other = context.player.other()
    try:
        for index, turns in ((one, gold.turns), (one, says("I do not know."))):
            base = context.play(index, turns).reward
            env = context.player.env
            context.player.reset(index, context.tasks[index], turns)
            other.reset(seed=two, options={"task": context.tasks[two], "task_index": two})
            over, total, number = False, 0.0, 0
            while not over and number < len(turns) + 3:
                _, reward, terminated, truncated, _ = env.step(turns[min(number, len(turns) - 1)])
                over, total, number = terminated or truncated, total + float(reward), number + 1
            if over and total != base:
                expected = f"reward {base}, whatever another environment plays"
                context.find("history", "two environments in turn", "high", index, turns, expected, f"reward {total}")
    except Exception:  # what it raises, other checks tell
        return
    finally:
        close(other)


def _after_the_end(context: Context) -> None:
    index = next(iter(context.tasks))
    played = context.play(index, says("I do not know."))
    env = context.player.env
    if played.error or not env.is_over:
        return
    with suppress(ResetNeeded, Exception):
        _, reward, *_ = env.step([message("I do not know.")])
        if reward:
            context.find(
                "after the end", "one more step", "high", index, "step after the end", "an error", f"reward {reward}"
            )


def check_tampering(context: Context) -> None:
    """Change the info and the request that were given out: the verdict must not know of it."""
    known = context.known()
    if not known:
        raise NotApplicable("no right answer is known")
    for index, gold in known[:3]:
        for turns in (gold.turns, says("I do not know.")):
            base = context.play(index, turns)
            env, task = context.player.env, context.tasks[index]
            try:
                observation, info = context.player.reset(index, task, turns)
                _spoil(info)
                _empty(observation)
                over, total, number = False, 0.0, 0
                while not over and number < len(turns) + 3:
                    seen, reward, terminated, truncated, step_info = env.step(turns[min(number, len(turns) - 1)])
                    over, total, number = terminated or truncated, total + float(reward), number + 1
                    if not over:
                        _spoil(step_info)
                        _empty(seen)
            except Exception:
                continue
            if over and total != base.reward:
                expected = f"reward {base.reward}"
                context.find(
                    "tampering", "what was given out is changed", "medium", index, turns, expected, f"reward {total}"
                )


def _spoil(info: Any) -> None:
    """Make everything in a nest of dicts something else, in place; lists are emptied."""
    for name, value in list(info.items()):
        if isinstance(value, dict):
            _spoil(value)
        elif isinstance(value, list):
            value.clear()
        elif name not in ("task_index", "turn", "tool_errors"):
            info[name] = 10**6 if isinstance(value, int | float) else "zebra"


def _empty(observation: Any) -> None:
    observation["input"].clear()
    observation.clear()


def compared(context: Context, episodes: str, alone: list[str]) -> None:
    """Play the episodes of another process (another hash seed, another clock), and compare the results."""
    for (index, turns), first in zip(json.loads(episodes), alone, strict=True):
        second = context.play(index, turns).ending
        if second != first:
            context.find("not determined", "another process", "high", index, turns, f"{first}, as in the first", second)
