"""Agents that stream, whose connections break, that send nonsense."""

from ..play import Play, Refused
from ..turns import system
from .registry import agent
from .tools import ADD, LOOK


@agent(branches=None)
async def streaming(play: Play) -> None:
    """Every answer is streamed: texts and calls."""
    turns = [system("Use tools.")]
    await play.talk(turns, play.user("Some words of Zoë 👩‍👧, then more."), tools=[ADD, LOOK], stream=True)
    following = play.user("I call.", calls=[["add", {"a": 1, "b": 2}], ["look", {}]])
    answer = await play.talk(turns, following, tools=[ADD, LOOK], stream=True)
    results = [play.result(answer.calls[0], "3"), play.result(answer.calls[1], "a door", "Done.")]
    await play.talk(turns, *results, tools=[ADD, LOOK], stream=True)


@agent(branches=1)
async def streaming_reasoning(play: Play) -> None:
    """Thinking is streamed, and sent back as it was put together."""
    turns = [system("Think.")]
    first = play.user(think="Let me see.", calls=[["look", {}]], odd=True)
    answer = await play.talk(turns, first, tools=[LOOK], stream=True)
    await play.talk(turns, play.result(answer.calls[0], "a door", "A door.", think="So."), tools=[LOOK], stream=True)


@agent(branches=1)
async def streams_now_and_then(play: Play) -> None:
    """One turn is streamed, the next is not."""
    turns = [system("Be brief.")]
    for number in range(4):
        await play.talk(turns, play.user(f"Answer {number}.", odd=True), stream=bool(number % 2))


@agent(branches=(1, 2))
async def cut_off_stream(play: Play) -> None:
    """The connection breaks in the middle of a stream, and the agent asks again."""
    turns = [system("Be brief.")]
    await play.talk(turns, play.user("First."))
    turns.append(play.user("Long answer {n}. " + "And on it goes. " * 20))
    await play.abandon(turns, stream=True)
    await play.talk(turns)
    await play.talk(turns, play.user("Third."))


@agent(branches=(1, 2))
async def retry_after_timeout(play: Play) -> None:
    """The model is too slow for the agent, which asks again; both answers may have been sampled."""
    turns = [system("Be brief.")]
    await play.talk(turns, play.user("First."))
    turns.append(play.user("Slow answer {n}.", wait=0.3))
    await play.abandon(turns, after=0.1)
    await play.talk(turns)
    await play.talk(turns, play.user("Third."))


@agent(branches=(1, 2))
async def vanishing_client(play: Play) -> None:
    """A client that leaves at once; another process of the same agent goes on."""
    turns = [system("Be brief.")]
    await play.talk(turns, play.user("First."))
    await play.abandon([*turns, play.user("Nobody hears {n}.", wait=0.1)], after=0.02)
    await play.talk(turns, play.user("Second."))


@agent(branches=1)
async def bad_requests(play: Play) -> None:
    """What is no request is refused, with a 4xx, and nothing of it is captured."""
    turns = [system("Be brief.")]
    await play.talk(turns, play.user("First."))
    for body in (b"{", b"[]", b'{"messages": 5, "input": 5, "max_tokens": 5}'):
        status = await play.raw(play.api.path, body)
        if not 400 <= status < 500:
            raise AssertionError(f"{body!r} is answered with {status}")
    await play.talk(turns, play.user("Second."))


@agent(branches=1)
async def wrong_key(play: Play) -> None:
    """A key that is no session's is refused with 401."""
    turns = [system("Be brief.")]
    await play.talk(turns, play.user("First."))
    try:
        await play.ask([*turns, play.user("Stolen.")], key="not-a-session")
    except Refused as refusal:
        if refusal.status != 401:
            raise AssertionError(f"a wrong key is answered with {refusal.status}") from None
    else:
        raise AssertionError("a wrong key is let in")
    await play.talk(turns, play.user("Second."))


@agent(branches=1)
async def counts_tokens(play: Play) -> None:
    """Questions beside the conversation are no turns of the model: for the models, and for a count of tokens.

    A server may have no answer to them, as clients take that, but none of them is captured.
    """
    turns = [system("Be brief."), play.user("First.")]
    if play.api.name == "messages":
        body = {**play.api.body(turns, (), {}), "model": "pocket"}
        body.pop("max_tokens")
        async with play.http.post(
            f"{play.server.url}/v1/messages/count_tokens", json=body, headers=play.api.headers(play.key)
        ) as answer:
            if answer.status not in (200, 404):
                raise AssertionError(f"count_tokens is answered with {answer.status}")
    async with play.http.get(f"{play.server.url}/v1/models", headers=play.api.headers(play.key)) as answer:
        if answer.status not in (200, 404):
            raise AssertionError(f"GET /v1/models is answered with {answer.status}")
    await play.talk(turns)
    await play.talk(turns, play.user("Second."))
