"""Agents that call tools."""

from ..play import Play
from ..turns import Turn, system
from .registry import agent

ADD = {
    "name": "add",
    "description": "Adds.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
}
LOOK = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}


@agent(branches=1)
async def tool_loop(play: Play) -> None:
    """Calls and results in turns, then an answer."""
    turns = [system("Use tools.")]
    answer = await play.talk(turns, play.user(calls=[["add", {"a": 1, "b": 2}]]), tools=[ADD])
    for number in range(3):
        following = play.result(answer.calls[0], str(number), calls=[["add", {"a": number, "b": 2}]])
        answer = await play.talk(turns, following, tools=[ADD])
    await play.talk(turns, play.result(answer.calls[0], "9", "It is 9."), tools=[ADD])


# After a text Qwen3's template puts a second line break before a call: such turns are read anew, by most servers.
@agent(branches=None)
async def talks_and_calls(play: Play) -> None:
    """A turn that says something and calls a tool, in other tokens than the tokenizer's."""
    turns = [system("Use tools.")]
    first = play.user("Let me add.", calls=[["add", {"a": 1, "b": 2}]], odd=True)
    answer = await play.talk(turns, first, tools=[ADD])
    await play.talk(turns, play.result(answer.calls[0], "3", "It is 3.", odd=True), tools=[ADD])
    await play.talk(turns, play.user("You are welcome."), tools=[ADD])


def _three(play: Play) -> Turn:
    return play.user(calls=[["add", {"a": 1, "b": 2}], ["look", {}], ["add", {"a": 3, "b": 4}]])


@agent(branches=1)
async def parallel_tool_calls(play: Play) -> None:
    """Three calls in one turn, all answered."""
    turns = [system("Use tools.")]
    answer = await play.talk(turns, _three(play), tools=[ADD, LOOK])
    results = [play.result(call, f"result {number}") for number, call in enumerate(answer.calls)]
    await play.talk(turns, *results[:2], play.result(answer.calls[2], "last", "Done."), tools=[ADD, LOOK])


@agent(branches=1)
async def results_reordered(play: Play) -> None:
    """The results of parallel calls come in another order than the calls."""
    turns = [system("Use tools.")]
    answer = await play.talk(turns, _three(play), tools=[ADD, LOOK])
    first, second, third = answer.calls
    results = [play.result(third, "7"), play.result(first, "3"), play.result(second, "a door", "Done.")]
    await play.talk(turns, *results, tools=[ADD, LOOK])
    await play.talk(turns, play.user("Bye."), tools=[ADD, LOOK])


@agent(branches=None)
async def renamed_calls(play: Play) -> None:
    """A framework that gives the calls ids of its own."""
    turns = [system("Use tools.")]
    answer = await play.talk(turns, play.user("Hm.", calls=[["add", {"a": 1, "b": 2}]]), tools=[ADD])
    call = answer.calls[0]
    own = type(call)("toolu_of_my_own_01", call.name, call.arguments)
    turns[-1] = answer.changed(calls=(own,))
    await play.talk(turns, play.result(own, "3", "It is 3."), tools=[ADD])


@agent(branches=(1, 2))
async def rewritten_arguments(play: Play) -> None:
    """A framework that reads the arguments and writes them as JSON of its own style, with other spaces."""
    turns = [system("Use tools.")]
    answer = await play.talk(turns, play.user(calls=[["add", '{"b":2,  "a":1}']]), tools=[ADD])
    call = answer.calls[0]
    turns[-1] = answer.changed(calls=(type(call)(call.id, call.name, '{"a": 1, "b": 2}'),))
    await play.talk(turns, play.result(call, "3", "It is 3."), tools=[ADD])


@agent(branches=2)
async def tools_change(play: Play) -> None:
    """The set of tools grows midway: the prompt begins differently from then on."""
    turns = [system("Use tools.")]
    await play.talk(turns, play.user("I have one."), tools=[ADD])
    await play.talk(turns, play.user("Still one."), tools=[ADD])
    await play.talk(turns, play.user("Two."), tools=[ADD, LOOK])
    await play.talk(turns, play.user("Still two."), tools=[ADD, LOOK])


@agent(branches=1)
async def tool_that_fails(play: Play) -> None:
    """A tool that answers with an error, and a second try."""
    turns = [system("Use tools.")]
    answer = await play.talk(turns, play.user(calls=[["look", {}]]), tools=[LOOK])
    error = play.result(answer.calls[0], "Error: <|im_end|> is dark", calls=[["look", {}]])
    answer = await play.talk(turns, error, tools=[LOOK])
    await play.talk(turns, play.result(answer.calls[0], "a door", "A door."), tools=[LOOK])
