"""Agents that go several ways from one place."""

import asyncio

from ..play import Play
from ..turns import Turn, system
from .registry import agent
from .tools import LOOK


@agent(branches=2)
async def fork(play: Play) -> None:
    """Two continuations of one history."""
    turns = [system("Be brief.")]
    await play.talk(turns, play.user("The trunk."))
    one, other = list(turns), list(turns)
    for number in range(2):
        await play.talk(one, play.user(f"Left {number}."))
        await play.talk(other, play.user(f"Right {number}.", odd=True))


@agent(branches=4)
async def tree(play: Play) -> None:
    """A search: each of two answers goes two ways on."""
    root = [system("Search.")]
    await play.talk(root, play.user("Root."))
    for first in ("a", "b"):
        turns = list(root)
        await play.talk(turns, play.user(f"Node {first}."))
        for second in ("c", "d"):
            await play.talk(list(turns), play.user(f"Leaf {first}{second}."))


@agent(branches=2)
async def undo(play: Play) -> None:
    """The last two turns are taken back, and the conversation goes on otherwise."""
    turns = [system("Be brief.")]
    for number in range(3):
        await play.talk(turns, play.user(f"Answer {number}."))
    turns = turns[:3]
    await play.talk(turns, play.user("Another answer."))
    await play.talk(turns, play.user("And one more."))


@agent(branches=3)
async def best_of_n(play: Play) -> None:
    """Three answers to one request at once; the agent goes on with the second."""
    turns = [system("Be brief."), play.user("Sample {n}.", odd=True)]
    answers = await asyncio.gather(*(play.ask(turns) for _ in range(3)))
    turns.append(answers[1])
    await play.talk(turns, play.user("Thank you."))


@agent(branches=2)
async def retry(play: Play) -> None:
    """The same request again, because the agent did not like the answer."""
    turns = [system("Be brief."), play.user("Try {n}.")]
    await play.ask(turns)
    await play.talk(turns)
    await play.talk(turns, play.user("Better."))


@agent(branches=3)
async def retry_alike(play: Play) -> None:
    """The same request three times, and the same words each time; the agent goes on with the last."""
    turns = [system("Be brief."), play.user("Always this.")]
    await play.ask(turns)
    await play.ask(turns)
    await play.talk(turns)
    await play.talk(turns, play.user("Better."))


async def _subagent(play: Play, task: str) -> Turn:
    turns = [system(f"You are a subagent for {task}.")]
    await play.talk(turns, play.user(f"I begin {task}."))
    return await play.talk(turns, play.user(f"I end {task}."))


@agent(branches=2)
async def subagent(play: Play) -> None:
    """A tool that is an agent with a fresh context; the first agent goes on with what it said."""
    turns = [system("Delegate.")]
    answer = await play.talk(turns, play.user(calls=[["look", {}]]), tools=[LOOK])
    found = await _subagent(play, "looking")
    await play.talk(turns, play.result(answer.calls[0], found.text, "All done."), tools=[LOOK])


@agent(branches=4)
async def parallel_subagents(play: Play) -> None:
    """Three subagents at once."""
    turns = [system("Delegate.")]
    answer = await play.talk(turns, play.user(calls=[["look", {}]] * 3), tools=[LOOK])
    found = await asyncio.gather(*(_subagent(play, f"part {number}") for number in range(3)))
    results = [play.result(call, one.text) for call, one in zip(answer.calls[:2], found, strict=False)]
    await play.talk(turns, *results, play.result(answer.calls[2], found[2].text, "All done."), tools=[LOOK])


@agent(branches=16)
async def many_at_once(play: Play) -> None:
    """Sixteen continuations of one history, all in flight together."""
    turns = [system("Be brief.")]
    await play.talk(turns, play.user("The trunk."))
    await asyncio.gather(*(play.ask([*turns, play.user(f"Branch {number}.", wait=0.05)]) for number in range(16)))
