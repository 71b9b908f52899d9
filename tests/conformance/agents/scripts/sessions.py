"""Agents in several sessions, and agents of several models."""

import asyncio

from ..engine import MODEL, OTHER_MODEL
from ..play import Play, Refused
from ..turns import system
from .registry import agent


@agent(branches=1)
async def interleaved_sessions(play: Play) -> None:
    """Two sessions in turns; each also quotes, as the model's, what the model said in the other."""
    other = await play.another(branches=1)
    mine, theirs = [system("Be brief.")], [system("Be brief.")]
    for number in range(3):
        await play.talk(mine, play.user(f"Mine {number}."))
        await other.talk(theirs, other.user(f"Theirs {number}.", odd=True))


@agent(branches=2)
async def borrowed_history(play: Play) -> None:
    """A session goes on with a history that another session sampled: in this one nobody sampled it."""
    other = await play.another(branches=1)
    turns = [system("Be brief.")]
    await other.talk(turns, other.user("Said elsewhere."))
    await play.talk(list(turns), play.user("Said here."))
    await play.talk([system("Be brief.")], play.user("Said elsewhere."))
    await other.talk(turns, other.user("Elsewhere again."))


@agent(branches=1)
async def sessions_at_once(play: Play) -> None:
    """Eight sessions at once that say the same."""

    async def converse(one: Play) -> None:
        turns = [system("Be brief.")]
        for number in range(3):
            await one.talk(turns, one.user(f"Answer {number}.", wait=0.01))

    others = [await play.another(branches=1) for _ in range(7)]
    await asyncio.gather(*(converse(one) for one in (play, *others)))


@agent(branches=(1, 2))
async def two_models(play: Play) -> None:
    """Some questions are for another model: they are refused, or answered and not trained on."""
    turns = [system("Be brief.")]
    await play.talk(turns, play.user("First."), model=MODEL)
    try:
        await play.ask([system("You judge."), play.user("Good.")], model=OTHER_MODEL)
    except Refused as refusal:
        if refusal.status not in (400, 404):
            raise
    await play.talk(turns, play.user("Second."), model=MODEL)
