"""Agents of models that think."""

from dataclasses import replace

from ..play import Play
from ..turns import system
from .registry import agent
from .tools import ADD


@agent(branches=1)
async def keeps_reasoning(play: Play) -> None:
    """Between tool calls the thinking is sent back as it came: one branch."""
    turns = [system("Think.")]
    first = play.user(think="I should add.", calls=[["add", {"a": 1, "b": 2}]])
    answer = await play.talk(turns, first, tools=[ADD])
    more = play.result(answer.calls[0], "3", think="Once more.", calls=[["add", {"a": 3, "b": 2}]], odd=True)
    answer = await play.talk(turns, more, tools=[ADD])
    await play.talk(turns, play.result(answer.calls[0], "5", "It is 5.", think="Five it is."), tools=[ADD])


@agent(branches=3)
async def drops_reasoning(play: Play) -> None:
    """The agent keeps no thinking, as most do: the model reads another history than it wrote."""
    turns = [system("Think.")]
    following = play.user(think="I should add.", calls=[["add", {"a": 1, "b": 2}]])
    for number in range(2):
        answer = await play.talk(turns, following, tools=[ADD])
        turns[-1] = answer.changed(reasoning="")
        following = play.result(answer.calls[0], "3", think=f"More {number}.", calls=[["add", {"a": 1, "b": number}]])
    await play.talk(turns, following, tools=[ADD])


@agent(branches=3)
async def thinks_in_every_turn(play: Play) -> None:
    """The template drops the thinking of turns before the last question, whatever the agent sends."""
    turns = [system("Think.")]
    for number in range(3):
        await play.talk(turns, play.user(f"It is {number}.", think=f"Let me think of {number}."))


@agent(branches=2)
async def changes_reasoning(play: Play) -> None:
    """The agent writes other thoughts into the model's turn: they are not what was sampled."""
    turns = [system("Think.")]
    first = play.user(think="I should add.", calls=[["add", {"a": 1, "b": 2}]])
    answer = await play.talk(turns, first, tools=[ADD])
    turns[-1] = replace(answer.changed(), reasoning="I should multiply.")
    await play.talk(turns, play.result(answer.calls[0], "3", "It is 3."), tools=[ADD])
