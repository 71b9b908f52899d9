"""Agents that say how to sample."""

from ..play import Play
from ..turns import system
from .registry import agent

LONG = "One two three four five six seven eight nine ten eleven twelve."


@agent(branches=1)
async def cut_by_max_tokens(play: Play) -> None:
    """An answer is cut at `max_tokens`, and the conversation goes on after it."""
    turns = [system("Count.")]
    answer = await play.talk(turns, play.user(LONG), max_tokens=7)
    if answer.finish not in ("length", "max_tokens", "max_output_tokens"):
        raise AssertionError(f"an answer that was cut ends with {answer.finish!r}")
    await play.talk(turns, play.user("Go on."))
    await play.talk(turns, play.user(LONG), max_tokens=3)
    await play.talk(turns, play.user("The end."))


@agent(branches=(1, 2))
async def cut_in_thought(play: Play) -> None:
    """An answer is cut while the model thinks."""
    turns = [system("Think.")]
    await play.talk(turns, play.user("Ten.", think=LONG), max_tokens=9)
    await play.talk(turns, play.user("Ten."))


@agent(branches=(1, 2))
async def cut_in_character(play: Play) -> None:
    """An answer is cut inside a character of several tokens, which no text can show."""
    turns = [system("Count.")]
    await play.talk(turns, play.user("👩‍👩‍👧‍👦👩‍👩‍👧‍👦"), max_tokens=6)
    await play.talk(turns, play.user("Ten."))


@agent(branches=(1, 2))
async def stop_words(play: Play) -> None:
    """A stop text ends the answer; the model sampled it, the agent does not get it. Responses has no stop texts."""
    turns = [system("Count.")]
    options = {} if play.api.name == "responses" else {"stop": [" four"]}
    answer = await play.talk(turns, play.user(LONG), **options)
    if options and answer.text.strip() != "One two three":
        raise AssertionError(f"an answer that was stopped is {answer.text!r}")
    await play.talk(turns, play.user("The end."))


@agent(branches=1)
async def greedy(play: Play) -> None:
    """Sampling parameters are the agent's: none of these changes what is captured."""
    turns = [system("Count.")]
    await play.talk(turns, play.user("One."), temperature=0, top_p=1)
    await play.talk(turns, play.user("Two."), temperature=0.7)
