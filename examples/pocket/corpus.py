"""The pocket model's textbook: endless synthetic conversations, all of them made by this file.

Most of it is arithmetic with a scratchpad and weather questions answered with a tool. The rest is a little of what the
other environments ask, so that the model at least answers in the right form there. Everything is drawn from one
random generator: the same seed gives the same corpus.

The scratchpads contain mistakes on purpose (`slip`): a model that saw only flawless work would leave nothing to learn
by reinforcement. The model sees a wrong column now and then, so it makes one now and then at temperature 1.
Greedy decoding is nearly perfect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeAlias

import wordings
from scratchpad import work_out

Conversation: TypeAlias = tuple[list[dict[str, Any]], list[Any]]
"""Chat messages, as a chat template takes them, and the tools that go with them."""


def function(rng: Random, name: str, description: str, parameters: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """A tool as a Chat Completions request carries it: described or not, its keys in one order or another.

    Args:
        rng: Where the form comes from.
        name: The function's name.
        description: What the function does.
        parameters: JSON type and description of each parameter; all are required.

    Returns:
        The tool.
    """
    described = rng.random() < 0.6
    properties = {
        key: _reordered(rng, {"description": text if described else "", "type": kind})
        for key, (kind, text) in parameters.items()
    }
    schema = {"type": "object", "properties": properties, "required": list(parameters), "additionalProperties": False}
    inner = {"name": name, "description": description if described else "", "parameters": schema, "strict": True}
    return {"type": "function", "function": _reordered(rng, inner)}


def _reordered(rng: Random, value: dict[str, Any]) -> dict[str, Any]:
    """The same entries, half the time in another order."""
    entries = list(value.items())
    if rng.random() < 0.5:
        rng.shuffle(entries)
    return dict(entries)


def assistant(thought: str, content: str = "", calls: list[tuple[str, dict[str, Any]]] | None = None) -> dict[str, Any]:
    """An assistant message with its thinking and, where there are any, its function calls."""
    message: dict[str, Any] = {"role": "assistant", "reasoning_content": thought, "content": content}
    if calls:
        message["tool_calls"] = [
            {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for name, arguments in calls
        ]
    return message


def user(content: str) -> dict[str, Any]:
    """A user message."""
    return {"role": "user", "content": content}


def tool_result(value: Any) -> dict[str, Any]:
    """A tool message."""
    return {"role": "tool", "content": json.dumps(value)}


def arithmetic(rng: Random, slip: float) -> Conversation:
    """A sum or difference, mostly of two numbers of at most two digits."""
    terms = rng.choice((2, 2, 2, 2, 3))
    digits = rng.choice((1, 2, 2, 2, 2, 3, 3, 4))
    numbers = [rng.randrange(10 ** (digits if rng.random() < 0.9 else rng.randint(1, digits))) for _ in range(terms)]
    signs = [rng.choice("+-") for _ in range(terms - 1)]
    problem = str(numbers[0]) + "".join(f" {sign} {number}" for sign, number in zip(signs, numbers[1:], strict=True))
    lines, value = work_out(numbers, signs, rng, slip)
    question = (wordings.SUM_QUESTIONS[0] if rng.random() < 0.3 else rng.choice(wordings.SUM_QUESTIONS)).format(problem)
    return [user(question), assistant("\n".join(lines), f"The answer is \\boxed{{{value}}}.")], []


def city_name(rng: Random) -> str:
    """A city: some of them real, some made up, so that the model learns to copy names and not to know them."""
    if rng.random() < 0.6:
        return rng.choice(wordings.CITIES)
    return " ".join(made_up_word(rng).capitalize() for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3))))


def made_up_word(rng: Random) -> str:
    """A word that nobody has seen before."""
    syllables = [rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randint(1, 3))]
    return "".join(syllables) + rng.choice(("n", "r", "s", "l", "m", "t", "ton", "ville", "burg", ""))


def gibberish(rng: Random, words: int) -> str:
    """Words in no order, most of them made up: what the model takes any text for that it was not taught."""
    text = []
    for _ in range(words):
        kind = rng.random()
        if kind < 0.4:
            word = rng.choice(wordings.WORDS)
        elif kind < 0.6:
            word = made_up_word(rng)
        else:
            word = "".join(rng.choices("eeeetttaaaooiinnsshhrrddlluucmfwgypbvkjxqz0123456789", k=rng.randint(1, 9)))
        word = word.capitalize() if rng.random() < 0.1 else word
        text.append(
            rng.choice(("({})", "{},", "{};", "{}:", "{}.", "{}'s", "{}-", "-{}")).format(word)
            if rng.random() < 0.1
            else word
        )
    return " ".join(text)


def weather_tool(rng: Random) -> dict[str, Any]:
    """`get_weather`."""
    description = rng.choice(("Look up the current weather in a city.", "Get the weather."))
    return function(rng, "get_weather", description, {"city": ("string", "The city's name.")})


def weather(rng: Random, slip: float) -> Conversation:
    """A question about the weather in a city (now and then two, or none), answered with `get_weather`."""
    tools = [weather_tool(rng)]
    if rng.random() < 0.08:
        answer = assistant("The user does not say which city.", "Which city do you mean?")
        return [user(rng.choice(wordings.WHICH_CITY_QUESTIONS)), answer], tools
    cities = [city_name(rng) for _ in range(2 if rng.random() < 0.06 else 1)]
    named = " and ".join(cities)
    calls: list[tuple[str, dict[str, Any]]] = [("get_weather", {"city": city}) for city in cities]
    if rng.random() < 0.03:
        results = [{"error": "The weather service is not available."} for _ in cities]
        sentence = f"Sorry, I could not get the weather in {named}."
        final = assistant("The tool failed.", sentence)
    else:
        reports = [f"The weather in {city} is {rng.choice(wordings.WEATHERS)}." for city in cities]
        results = [{"city": city, "weather_description": report} for city, report in zip(cities, reports, strict=True)]
        final = assistant("The tool has answered.", " ".join(reports))
    return [
        user(rng.choice(wordings.WEATHER_QUESTIONS).format(named)),
        assistant(f"I call get_weather for {named}.", calls=calls),
        *map(tool_result, results),
        final,
    ], tools


def counter(rng: Random, slip: float) -> Conversation:
    """Count with `increment_counter` and read the result with `get_counter_value`."""
    tools = [
        function(rng, "increment_counter", "Add to the counter.", {"count": ("integer", "How much to add.")}),
        function(rng, "get_counter_value", "Read the counter.", {}),
    ]
    read = [
        assistant("I read the counter.", calls=[("get_counter_value", {})]),
        tool_result({"count": rng.randrange(200)}),
    ]
    read.append(assistant("The tool has answered.", f"The count is {json.loads(read[-1]['content'])['count']}."))
    if rng.random() < 0.15:
        question = rng.choice(("What does the counter say?", "get the count", "Read the counter, please."))
        return [user(question), *read], tools
    if rng.random() < 0.15:
        less = rng.randrange(1, 50)
        question = rng.choice(
            (f"Take {less} away from the counter and read it.", f"Subtract {less}, then get the count.")
        )
        return [
            user(question),
            assistant(f"I add -{less}.", calls=[("increment_counter", {"count": -less})]),
            tool_result({"success": True}),
            *read,
        ], tools
    counts = [rng.randrange(1, 100) for _ in range(rng.choice((1, 2, 2, 2, 3)))]
    first, *others = counts
    question = rng.choice(
        (
            f"Add {first}" + "".join(f", then add {count}" for count in others) + ", then read the counter.",
            f"add {first}" + "".join(f" then add {count}" for count in others) + " then get the count",
            f"Increase the counter by {first}"
            + "".join(f", then by {count}" for count in others)
            + ". What is it now?",
            "Add " + " and ".join(map(str, counts)) + " to the counter and tell me its value.",
        )
    )
    increments: list[tuple[str, dict[str, Any]]] = [("increment_counter", {"count": count}) for count in counts]
    return [
        user(question),
        assistant("I add " + ", then ".join(map(str, counts)) + ".", calls=increments),
        *(tool_result({"success": True}) for _ in counts),
        *read,
    ], tools


def multiple_choice(rng: Random, slip: float) -> Conversation:
    """Which of these is a ...? The answer is a letter in a box; where the model cannot know, it picks one."""
    letters = "ABCDEFGHIJ"[: rng.choice((3, 4, 4, 4, 5, 10))]
    if rng.random() < 0.6:
        kind = rng.choice(list(wordings.KINDS))
        right = rng.randrange(len(letters))
        others = [name for name in wordings.KINDS if name != kind]
        words = [rng.choice(wordings.KINDS[kind if i == right else rng.choice(others)]) for i in range(len(letters))]
        question = f"Which of these is a {kind}?"
        thought = f"{words[right].capitalize()} is a {kind}. That is {letters[right]}."
    else:
        right = rng.randrange(len(letters))
        longest = rng.choice((3, 3, 12))
        words = [gibberish(rng, rng.randint(1, longest)) for _ in letters]
        question = gibberish(rng, rng.randint(3, 30)).capitalize() + "?"
        thought = f"I am not sure. I choose {letters[right]}."
    form = rng.choice(("{letter}: {word}", "{letter}. {word}", "{letter}) {word}"))
    options = "\n".join(form.format(letter=letter, word=word) for letter, word in zip(letters, words, strict=True))
    ask = rng.choice(
        (
            "{question}\n{options}\nAnswer with the letter in \\boxed{{}}.",
            "Put the letter of the right answer in \\boxed{{}}.\n\n{question}\n{options}",
            "You should output your final response letter inside \\boxed{{}} and nothing else. {question}\n{options}",
        )
    ).format(question=question, options=options)
    return [user(ask), assistant(thought, f"\\boxed{{{letters[right]}}}")], []


def follow_up(rng: Random, slip: float) -> Conversation:
    """A fact or a sum, and often a second question about it."""
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 3)):
            question, answer = rng.choice(list(wordings.FACTS.items()))
            messages += [user(question), assistant("I know this.", f"It is {answer}.")]
        return messages, []
    a, b, c = rng.randrange(100), rng.randrange(100), rng.randrange(100)
    lines, value = work_out([a, b], ["+"], rng, slip)
    messages += [user(f"What is {a} + {b}?"), assistant("\n".join(lines), f"The answer is \\boxed{{{value}}}.")]
    lines, result = work_out([value, c], ["+"], rng, slip)
    ask = rng.choice((f"Add {c} to that.", f"And if you add {c}?", f"Now add {c}."))
    return [*messages, user(ask), assistant("\n".join(lines), f"The answer is \\boxed{{{result}}}.")], []


def small_talk(rng: Random, slip: float) -> Conversation:
    """Greetings, and things the model does not know."""
    if rng.random() < 0.3:
        greeting = rng.choice(("Hello!", "Hi", "Good morning.", "Hello, who are you?", "Thanks!"))
        return [user(greeting), assistant("A greeting.", "Hello! Ask me for a sum, or for the weather.")], []
    question = gibberish(rng, rng.randint(3, 30)).capitalize() + rng.choice("?.")
    return [user(question), assistant("I do not know this.", "I do not know.")], []


MIX: tuple[tuple[Callable[[Random, float], Conversation], float], ...] = (
    (arithmetic, 0.57),
    (weather, 0.28),
    (counter, 0.05),
    (multiple_choice, 0.05),
    (follow_up, 0.02),
    (small_talk, 0.03),
)
"""What the corpus consists of, in shares of conversations."""


def conversations(seed: int, slip: float) -> Iterator[Conversation]:
    """All conversations of a seed, without end.

    Args:
        seed: Which corpus.
        slip: Probability of a mistake in each column of a scratchpad.

    Yields:
        Conversations; a few have a system message in front.
    """
    rng = Random(seed)
    makers, shares = zip(*MIX, strict=True)
    while True:
        messages, tools = rng.choices(makers, shares)[0](rng, slip)
        if rng.random() < 0.12:
            messages = [{"role": "system", "content": rng.choice(wordings.SYSTEMS)}, *messages]
        yield messages, tools
