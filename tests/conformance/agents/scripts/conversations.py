"""Agents that talk: nothing is taken back, so that each conversation is one branch."""

from ..play import Play
from ..turns import assistant, system, user
from .registry import agent

WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@agent(branches=1)
async def one_question(play: Play) -> None:
    """One question, one answer, sampled by the pocket model."""
    await play.ask([system(play.about("You add numbers.")), user("What is 12 + 30?")])


@agent(branches=None)
async def sums(play: Play) -> None:
    """A chat of several sums: the pocket model thinks, and its template forgets what it thought before."""
    turns = [system(play.about("You add numbers."))]
    for question in ("What is 2 + 3?", "What is 20 + 35?", "What is 9 - 4?"):
        await play.talk(turns, user(question))


@agent(branches=None)
async def weather(play: Play) -> None:
    """The pocket model calls a tool, if it likes to, and gets results until it says something."""
    turns = [system(play.about("You know the weather.")), user("What is the weather in Paris?")]
    for _ in range(3):
        answer = await play.talk(turns, tools=[WEATHER])
        if not answer.calls:
            break
        turns += [play.result(call, '{"city": "Paris", "weather": "sunny"}') for call in answer.calls]


@agent(branches=1)
async def chat(play: Play) -> None:
    """Five turns of talk."""
    turns = [system("Be brief.")]
    for number in range(5):
        await play.talk(turns, play.user(f"Answer {number} is {number * 7}.", before="And? "))


@agent(branches=1)
async def long_conversation(play: Play) -> None:
    """Fifty turns."""
    turns = [system("Count.")]
    for number in range(50):
        await play.talk(turns, play.user(f"{number + 1}!"))


@agent(branches=1)
async def without_system_prompt(play: Play) -> None:
    """No system prompt, and texts sent as lists of parts."""
    turns = [play.user("Hello there.", parts=True)]
    await play.talk(turns)
    await play.talk(turns, play.user("And again.", parts=True))


@agent(branches=1)
async def other_tokens(play: Play) -> None:
    """The model samples its words in other tokens than the tokenizer's: text that is tokenised anew is not it."""
    turns = [system("Be brief.")]
    for number in range(4):
        await play.talk(turns, play.user(f"Answer number {number} in pieces.", odd=True))


@agent(branches=1)
async def unicode(play: Play) -> None:
    """Emoji, combining marks, other scripts, characters beyond the basic plane."""
    turns = [system("Sprich, 話す, تكلم.")]
    for text in (
        "Zoë 👩‍👩‍👧‍👦 e\u0301 ẞ",
        "日本語 العربية עברית 𝔘𝔫𝔦",
        "tab\there, “quotes” and\u00a0spaces\n\nnew line",
    ):
        await play.talk(turns, play.user(text))
    await play.talk(turns, play.user("日本 👩‍👧 in pieces", odd=True))


@agent(branches=1)
async def few_shot(play: Play) -> None:
    """Turns in the model's name that it never said come first: context, not samples."""
    turns = [system("Add."), user("1 + 1"), assistant("2"), user("2 + 2"), assistant("4")]
    await play.talk(turns, play.user("6"))
    await play.talk(turns, play.user("8"))


@agent(branches=1)
async def duplicate_turns(play: Play) -> None:
    """The model says the same again and again in one conversation."""
    turns = [system("Agree.")]
    for _ in range(5):
        await play.talk(turns, play.user("Yes."))


@agent(branches=2)
async def duplicate_conversations(play: Play) -> None:
    """Two conversations that are alike word for word, turn by turn in turns."""
    one, other = [system("Agree.")], [system("Agree.")]
    for _ in range(3):
        await play.talk(one, play.user("Yes."))
        await play.talk(other, play.user("Yes."))


@agent(branches=(1, 2))
async def empty_answer(play: Play) -> None:
    """The model ends its turn at once, and is asked again; where an API has no empty turn, it is left out."""
    turns = [system("Be silent.")]
    await play.talk(turns, play.user(""))
    await play.talk(turns, play.user("Now I speak."))
    await play.talk(turns, play.user("Again."))


@agent(branches=(1, 2))
async def prefilled_answer(play: Play) -> None:
    """The agent begins the model's answer itself: what it wrote is context, also where the model goes on from it."""
    turns = [system("Add."), play.user("42, as I said.")]
    answer = await play.ask([*turns, assistant("The answer is")])
    turns.append(assistant(f"The answer is {answer.text}"))
    await play.talk(turns, play.user("Bye."))
