"""RULER v2: needles, MMLU's questions and HotpotQA's documents in a context of a chosen length.

The prompts say what RULER v2 asks, so they are word for word those of NeMo Gym 07d6b0d, Apache-2.0:
benchmarks/ruler2/sources, prepare_niah.py, prepare_mmlu.py and prepare_qa.py.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Any, Literal

from gym_llm.data.benchmarks import ruler_texts as texts
from gym_llm.data.benchmarks.ruler_lengths import (
    LENGTHS,
    SAMPLES,
    SEED,
    Count,
    Draft,
    Draw,
    endless,
    filling,
    fitting,
    size_of,
)
from gym_llm.data.benchmarks.ruler_texts import Question, Words
from gym_llm.data.files.conversion import QUESTION, listed
from gym_llm.data.recipes.recipe import Benchmark, Convert, Source
from gym_llm.data.recipes.token_counts import count_tokens
from gym_llm.types import Row

_LEAST_NEEDLES = 5

_NEEDLES = (
    "Some special magic {kind} are hidden within the following text. Make sure to memorize them. I will quiz you about "
    "the {kind} afterwards.\n{context}\nWhat are all the special magic {kind} for {query} mentioned in the provided "
    "text? The special magic {kind} for {query} mentioned in the provided text are"
)


def needles(number_of_values: int, words: Words) -> Draw:
    """Return a drawing of lines that name a number for a key, every key with as many numbers as the one asked for."""
    single = number_of_values == 1
    template = "".join(texts.NIAH_SINGULAR) if single else _NEEDLES

    def draw(rng: random.Random, number: int, size: int) -> Draft:
        value = partial(texts.random_number, rng, 10)
        key, answers = words.key(rng), texts.distinct(value, number_of_values)
        others = texts.distinct(lambda: words.key(rng), -(-size // number_of_values), without=[key])
        needle = partial(texts.NEEDLE.format, kind="numbers")
        lines = [needle(key=other, value=value()) for other in (others * number_of_values)[:size]]
        hidden = [needle(key=key, value=answer) for answer in answers]
        for each in (lines, hidden):
            rng.shuffle(each)
        context = "\n".join(texts.inserted(rng, lines, hidden))
        return Draft(template.format(kind="number" if single else "numbers", context=context, query=key), answers)

    return draw


_COPY_ONE = (
    "Below are some questions. I will ask you to copy one of them. Please copy and paste the question you find.\n\n"
)
_COPY_SOME = (
    "Below are some questions. I will ask you to copy some of them. Please copy and paste the questions you find.\n\n"
)
_SOLVE_ONE = (
    "Below are some questions. I will ask you to solve one of them. Please solve the question you find and make sure "
    "to put the answer (and only answer) inside \\boxed\\{\\}.\n\n"
)
_EXAMPLES = (
    "Here are some examples to help you understand the task:\n\n{}\n\nHere is the actual task you need to solve:\n\n"
)
_ORDINALS = ("1st", "2nd", "3rd", "4th")
_EXAMPLES_SHARE = 16  # an example has at most this part of the prompt
_EXAMPLES_TRIED = 1000
_SHORTEST = 8  # tokens of a question or document with its heading, at least


@dataclass(frozen=True)
class Choosing:
    """A task over MMLU's questions.

    Attributes:
        intro: The beginning of the prompt.
        problem: The end of the prompt.
        answer: What is expected: the text of the question, the texts of all with its number, or the letter.
        per_number: The number of questions that share a number.
        solved: An example's answer; None for a prompt without examples.
    """

    intro: str
    problem: str
    answer: Literal["text", "texts", "letter"]
    per_number: int = 1
    solved: str | None = None


_CHOOSING = {
    "mk_niah_easy": Choosing(_COPY_ONE, "Please copy the {order}Question {number} from the context.", "text"),
    "mk_niah_medium": Choosing(
        _SOLVE_ONE,
        "Please copy the Question {number} from the context and then solve it with an answer from A, B, C, D.",
        "letter",
        solved="\nQuestion {number}: {text}\nSolution: \\boxed{{{letter}}}",
    ),
    "mk_niah_hard": Choosing(
        _SOLVE_ONE,
        "Please solve the Question {number} from the context with an answer from A, B, C, D.",
        "letter",
        solved="\nSolution: \\boxed{{{letter}}}",
    ),
    "mv_niah_easy": Choosing(
        _COPY_SOME, "Please find and copy all the Question {number} from the context.", "texts", per_number=4
    ),
    "mv_niah_medium": Choosing(
        _COPY_ONE,
        "Please first copy all the Question {number} from the context and then copy the {order}Question {number} at "
        "the end.",
        "text",
        per_number=4,
    ),
    "mv_niah_hard": Choosing(
        _COPY_ONE, "Please copy the {order}Question {number} from the context.", "text", per_number=4
    ),
}
_EXAMPLES_SHOWN = 5


@dataclass(frozen=True)
class Choice:
    """A question with its options in one line, and the letter of the right one."""

    text: str
    letter: str


def read_choice(row: dict[str, Any]) -> Choice:
    """Read a row of MMLU."""
    options = listed(dict(zip("ABCD", row["choices"], strict=True)), "{}. {}")
    return Choice(re.sub(r"\s+", " ", f"{row['question']}\n{options}"), "ABCD"[row["answer"]])


def choosing(shape: Choosing, asked: list[Choice], others: list[Choice], count: Count) -> Draw:
    """Return a drawing of numbered questions, of which one is asked for; the size counts the prompt's tokens."""

    @cache
    def tokens(index: int) -> int:
        return count(f"Question 1000000: {others[index].text}\n\n")

    def draw(rng: random.Random, number: int, size: int) -> Draft:
        order = endless(rng, len(others), size // _SHORTEST + _EXAMPLES_TRIED)
        examples: list[int] = []
        if shape.solved is not None:
            short = (index for index in islice(order, _EXAMPLES_TRIED) if tokens(index) <= size // _EXAMPLES_SHARE)
            examples = list(islice(short, _EXAMPLES_SHOWN))
        assemble = partial(_choosing_draft, rng, shape, asked[number], [others[index] for index in examples])
        room = size - count(assemble([]).prompt)
        return assemble([others[index] for index in filling(order, lambda index, _: tokens(index), room)])

    return draw


def _choosing_draft(
    rng: random.Random, shape: Choosing, asked: Choice, examples: list[Choice], more: list[Choice]
) -> Draft:
    shown = [*examples, *more]
    rng.shuffle(shown)
    place = rng.randint(0, len(shown))
    shown.insert(place, asked)
    numbers = _numbers(rng, -(-len(shown) // shape.per_number)) * shape.per_number
    rng.shuffle(numbers)
    by_text = {choice.text: number for choice, number in zip(shown, numbers, strict=False)}
    number = numbers[place]
    order = ""
    if shape.per_number > 1:
        order = f"{_ORDINALS[numbers[:place].count(number)]} (1 indexed) "
    solved = "\n\n".join(
        (shape.problem + (shape.solved or "")).format(
            number=by_text[example.text], text=example.text, letter=example.letter
        )
        for example in examples
    )
    context = "\n\n".join(f"Question {n}: {choice.text}" for n, choice in zip(numbers, shown, strict=False))
    problem = shape.problem.format(number=number, order=order)
    prompt = f"{shape.intro}{context}\n\n{_EXAMPLES.format(solved) if solved else ''}{problem}"
    if shape.answer == "letter":
        return Draft(prompt, [asked.letter])
    same = [choice.text for n, choice in zip(numbers, shown, strict=False) if n == number]
    return Draft(prompt, same if shape.answer == "texts" else [asked.text])


def _numbers(rng: random.Random, number: int) -> list[str]:
    return texts.distinct(partial(texts.random_number, rng, 7), number)


@dataclass(frozen=True)
class Reading:
    """A task over HotpotQA's documents: the prompt's beginning and end, and what is expected."""

    intro: str
    problem: str
    answer: Literal["first document", "documents", "answer"]


_ANSWER = (
    "Below are some documents. I will ask you to answer a question based on the documents. Please answer the question."
    "\n\n"
)
_READING = {
    "qa_basic": Reading(
        "Below are some documents. I will give you a text at the end. Please find the document index of the text. Only "
        "give me the index without any document contents.\n\n",
        "Text: {text}\nMost relevant document index:",
        "first document",
    ),
    "qa_easy": Reading(
        "Below are some documents. I will give you a question at the end. Please find the index of the most relevant "
        "document that can help answer the question. Only give me the index without any document contents.\n\n",
        "Question: {question}\nIndex of the most relevant document that can help answer the question:",
        "documents",
    ),
    "qa_medium": Reading(
        _ANSWER,
        "Please first find and copy paste the documents relevant to the following question and then answer it based on "
        "the documents you find.\n\nQuestion: {question}",
        "answer",
    ),
    "qa_hard": Reading(
        _ANSWER, "Please answer the following question based on the documents.\n\nQuestion: {question}", "answer"
    ),
}


def read_documents(rows: list[dict[str, Any]]) -> tuple[list[Question], list[str]]:
    """Return HotpotQA's questions with their documents, those with the answer first, and all documents."""
    read = []
    for row in rows:
        context, facts = row["context"], set(row["supporting_facts"]["title"])
        pairs = list(zip(context["title"], map("".join, context["sentences"]), strict=True))
        own = [f"{title}\n{text}" for title, text in pairs if title in facts]
        if row["answer"] and own:
            read.append((row, own, [f"{title}\n{text}" for title, text in pairs if title not in facts]))
    documents = sorted({text for _, own, others in read for text in (*own, *others)})
    places = {text: place for place, text in enumerate(documents)}
    questions = [
        Question(row["question"], [row["answer"]], [places[t] for t in own], [places[t] for t in others])
        for row, own, others in read
    ]
    return questions, documents


def reading(shape: Reading, asked: list[Question], documents: list[str], count: Count) -> Draw:
    """Return a drawing of numbered documents, a question's ten among them; the size counts the prompt's tokens."""

    @cache
    def tokens(index: int) -> int:
        return count(f"Document 1000000:\n{documents[index]}\n\n")

    def draw(rng: random.Random, number: int, size: int) -> Draft:
        question = asked[number]
        problem = shape.problem.format(text=documents[question.own[0]], question=question.text)
        chosen = [*question.own, *question.related]
        room = size - count(shape.intro + problem) - sum(map(tokens, chosen))
        order = endless(rng, len(documents), size // _SHORTEST, first_without=chosen)
        chosen += filling(order, lambda index, _: tokens(index), room)
        numbers = _numbers(rng, len(chosen))
        headed = [f"Document {n}:\n{documents[index]}" for n, index in zip(numbers, chosen, strict=True)]
        rng.shuffle(headed)
        prompt = shape.intro + "\n\n".join([*headed, problem])
        supporting = numbers[: 1 if shape.answer == "first document" else len(question.own)]
        return Draft(prompt, question.answers if shape.answer == "answer" else supporting)

    return draw


def _ruler2(length: int) -> Convert:
    def tasks(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
        """Draw a hundred samples of each task."""
        words = Words.read(tables["nouns"], tables["adjectives"], [], [])
        asked, others = ([read_choice(row) for row in tables[name]] for name in ("questions", "haystack"))
        questions, documents = read_documents(tables["hotpotqa"])
        for task in TASKS:
            rng = random.Random(SEED)
            samples = list(range(min(SAMPLES, len(questions))))
            size, slope = length, 1.0
            draw: Draw
            if task in _CHOOSING:
                draw = choosing(_CHOOSING[task], asked, others, count_tokens)
                samples = rng.sample(range(len(asked)), min(SAMPLES, len(asked)))
            elif task in _READING:
                draw = reading(_READING[task], questions, documents, count_tokens)
            else:
                draw = needles(_VALUES[task], words)
                size, slope = size_of(draw, rng, length, count_tokens, _LEAST_NEEDLES)
                samples = list(range(SAMPLES))
            for number, draft, tokens in fitting(draw, rng, samples, length, count_tokens, size=size, slope=slope):
                yield _task(task, number, draft, tokens)

    return tasks


_VALUES = {"mk_niah_basic": 1, "mv_niah_basic": 4}
_LEVELS = ("basic", "easy", "medium", "hard")
TASKS = tuple(f"{family}_{level}" for family in ("mk_niah", "mv_niah", "qa") for level in _LEVELS)
"""The tasks' names, in the order of their rows."""


def _task(task: str, number: int, draft: Draft, tokens: int) -> Row:
    is_choice = task in _CHOOSING and _CHOOSING[task].answer == "letter"
    return {
        "question": draft.prompt,
        "expected_answer": draft.answers[0] if is_choice else draft.answers,
        "eval_type": "multichoice" if is_choice else "ruler2",
        "match_type": "part" if task in _READING else "2steps" if task == "mv_niah_medium" else "all",
        "task": task,
        "length": tokens,
        "index": number,
    }


_SOURCES = (
    texts.word_source("noun"),
    texts.word_source("adjective"),
    Source("cais/mmlu", config="all", split="test", label="questions", shared=True),
    Source("cais/mmlu", config="all", split="auxiliary_train", label="haystack", shared=True),
    Source("hotpotqa/hotpot_qa", config="distractor", split="validation", label="hotpotqa", shared=True),
)
_ROWS = SAMPLES * len(TASKS)

BENCHMARKS = [
    Benchmark(
        name="ruler2",
        title="RULER v2: needles, MMLU's questions and HotpotQA's documents in a long context (16k tokens)",
        domain="long_context",
        sources=_SOURCES,
        convert=_ruler2(LENGTHS["16k"]),
        joins=True,
        env_id="gym_llm/Ruler2-v0",
        prompt=QUESTION,
        rows=_ROWS,
        license="Apache-2.0 (RULER v2); MMLU: MIT; HotpotQA: CC BY-SA 4.0; words: MIT",
        needs=("tokenizer",),
        facts="NeMo Gym 07d6b0d, benchmarks/ruler2",
        notes=(
            "Samples are drawn as NeMo Gym draws them, but are not NVIDIA's own. Tokens are o200k_base's, and not the "
            "model's. The documents of the haystack are HotpotQA's validation split; NeMo Gym takes the train split, "
            "which is ten times as large. Each prompt is filled with as many questions or documents as fit."
        ),
        variants={name: {"convert": _ruler2(length), "rows": _ROWS} for name, length in LENGTHS.items()},
    ),
]
