"""Agents that change what was said."""

from ..play import Play
from ..turns import Turn, system, user
from .registry import agent


async def _two_turns(play: Play) -> list[Turn]:
    turns = [system("Be brief.")]
    await play.talk(turns, play.user("First answer."))
    await play.talk(turns, play.user("Second answer."))
    return turns


@agent(branches=2)
async def compaction(play: Play) -> None:
    """The model sums the conversation up, and goes on from the summary alone."""
    turns = await _two_turns(play)
    summary = await play.talk(turns, play.user("We said two things.", before="Sum up. "))
    turns = [turns[0], user(f"Until now: {summary.text}")]
    await play.talk(turns, play.user("Third answer."))
    await play.talk(turns, play.user("Fourth answer."))


@agent(branches=2)
async def sliding_window(play: Play) -> None:
    """The oldest turns are cut off."""
    turns = await _two_turns(play)
    turns = [turns[0], *turns[3:]]
    await play.talk(turns, play.user("Third answer."))


@agent(branches=2)
async def changes_system_prompt(play: Play) -> None:
    """The system prompt is replaced once, midway."""
    turns = await _two_turns(play)
    turns[0] = system("Be long.")
    await play.talk(turns, play.user("Third answer."))
    await play.talk(turns, play.user("Fourth answer."))


@agent(branches=4)
async def clock_in_system_prompt(play: Play) -> None:
    """The system prompt has the time: no prompt begins like the one before."""
    turns = [system("")]
    for number in range(4):
        turns[0] = system(f"It is {number + 1}:{number * 13:02d}.")
        await play.talk(turns, play.user(f"Answer {number}."))


@agent(branches=2)
async def edits_question(play: Play) -> None:
    """An old question is put differently, what followed is kept."""
    turns = await _two_turns(play)
    turns[1] = play.user("First answer.", before="What I meant: ")
    await play.talk(turns, play.user("Third answer."))


@agent(branches=2)
async def edits_answer(play: Play) -> None:
    """The model's own words are changed: what it never said has mask 0."""
    turns = await _two_turns(play)
    turns[2] = turns[2].changed(text="First answer, corrected by me.")
    await play.talk(turns, play.user("Third answer."))


@agent(branches=(1, 2))
async def trims_whitespace(play: Play) -> None:
    """A framework that strips the model's texts before it sends them back."""
    turns = [system("Be brief.")]
    answer = await play.talk(turns, play.user("  An answer with space around. \n\n"))
    turns[-1] = answer.changed(text=answer.text.strip())
    await play.talk(turns, play.user("Next."))


@agent(branches=2)
async def swaps_answers(play: Play) -> None:
    """Two of the model's answers change places."""
    turns = await _two_turns(play)
    turns[2], turns[4] = turns[4], turns[2]
    await play.talk(turns, play.user("Third answer."))


@agent(branches=2)
async def handoff(play: Play) -> None:
    """Another agent, with a system prompt of its own, takes the conversation over."""
    turns = await _two_turns(play)
    turns[0] = system("You are the second agent.")
    await play.talk(turns, play.user("Third answer."))


@agent(branches=(1, 2))
async def joins_answers(play: Play) -> None:
    """Two questions in a row become one message, and the answer between them is left out."""
    turns = [system("Be brief.")]
    await play.talk(turns, play.user("First answer."))
    turns = [turns[0], user("Earlier question."), play.user("Second answer.")]
    await play.talk(turns)
