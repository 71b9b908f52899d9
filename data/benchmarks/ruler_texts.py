"""Texts that RULER's prompts are made of: templates, essays, words, and questions with their documents.

The templates say what RULER asks, so they are RULER's, word for word: NVIDIA/RULER c3f5e3b, Apache-2.0,
scripts/data/synthetic/constants.py. The singular of the needle's template is what `niah.py` makes of the plural.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from typing import Any, Literal

from gym_llm.data.recipes.recipe import Source
from gym_llm.types import Row

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NEEDLE = "One of the special magic {kind} for {key} is: {value}."

NIAH = (
    "Some special magic {kind} are hidden within the following text. Make sure to memorize it. I will quiz you about "
    "the {kind} afterwards.\n{context}\nWhat are all the special magic {kind} for {query} mentioned in the provided "
    "text?",
    " The special magic {kind} for {query} mentioned in the provided text are",
)
"""The prompt, and the beginning of the answer; as all of these."""
NIAH_SINGULAR = (
    "A special magic {kind} is hidden within the following text. Make sure to memorize it. I will quiz you about the "
    "{kind} afterwards.\n{context}\nWhat is the special magic {kind} for {query} mentioned in the provided text?",
    " The special magic {kind} for {query} mentioned in the provided text is",
)
VARIABLES = (
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n{context}\nQuestion: Find "
    "all variables that are assigned the value {query} in the text above.",
    " Answer: According to the chain(s) of variable assignment in the text above, {number} variables are assigned the "
    "value {query}, they are: ",
)
COMMON_WORDS = (
    "Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that "
    "appear most often.\n{context}\nQuestion: What are the 10 most common words in the above list?",
    " Answer: The top 10 words that appear most often in the list are:",
)
FREQUENT_WORDS = (
    "Read the following coded text and track the frequency of each coded word. Find the three most frequently appeared "
    "coded words. {context}\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the "
    "three most frequently appeared words in the above coded text?",
    " Answer: According to the coded text above, the three most frequently appeared words are:",
)
QUESTIONS = (
    "Answer the question based on the given documents. Only give me the answer and do not output any other words.\n\n"
    "The following are given documents.\n\n{context}\n\nAnswer the question based on the given documents. Only give me "
    "the answer and do not output any other words.\n\nQuestion: {query}",
    " Answer:",
)

ValueKind = Literal["numbers", "words", "uuids"]

_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]])) (?=[\"'(\[]?[A-Z0-9])")


class Essays:
    """Paul Graham's essays as one text of words, repeated where a haystack is longer."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._words = "".join(row["text"] for row in rows).split()
        self.sentences: Callable[[int], list[str]] = lru_cache(maxsize=4)(self._sentences)

    def _sentences(self, words: int) -> list[str]:
        return _SENTENCE_END.split(" ".join(islice(cycle(self._words), words)))


@dataclass(frozen=True)
class Words:
    """Lists of English words.

    Attributes:
        nouns: Nouns; with an adjective, the keys of needles.
        adjectives: Adjectives.
        plain: Nouns, adjectives and verbs.
        more: A longer list, for prompts that need more words than `plain` has.
    """

    nouns: list[str]
    adjectives: list[str]
    plain: list[str]
    more: list[str]

    @classmethod
    def read(cls, nouns: list[Row], adjectives: list[Row], verbs: list[Row], more: list[Row]) -> Words:
        """Read the files of wonderwords, a word per line, and RULER's `english_words.json`, one object of words."""
        lists = [[word for row in rows for word in _lines(row["text"])] for rows in (nouns, adjectives, verbs)]
        plain = sorted({word for each in lists for word in each})
        return cls(lists[0], lists[1], plain, list(dict.fromkeys(word for row in more for word in row.values())))

    def key(self, rng: random.Random) -> str:
        """Return an adjective and a noun, joined by a hyphen."""
        return f"{rng.choice(self.adjectives)}-{rng.choice(self.nouns)}"

    def sample(self, rng: random.Random, number: int) -> list[str]:
        """Return different words.

        Raises:
            ValueError: If the lists have fewer words.
        """
        words = self.plain if number <= len(self.plain) else self.more
        if number > len(words):
            raise ValueError(f"the lists have {max(len(self.plain), len(self.more))} words, and {number} are needed")
        return rng.sample(words, number)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def word_source(kind: Literal["noun", "adjective", "verb"]) -> Source:
    """Return the load of a list of wonderwords, the package that RULER takes its words from; the label is the plural.

    The files are those of wonderwords 3.0.1.
    """
    return Source(
        "https://raw.githubusercontent.com/mrmaxguns/wonderwordsmodule/5dfa455554e7c225a59c865d706c4293ca2c132e/"
        f"wonderwords/assets/{kind}list.txt",
        label=f"{kind}s",
        shared=True,
    )


def random_number(rng: random.Random, digits: int) -> str:
    """Return a random number without leading zeros."""
    return str(rng.randrange(10 ** (digits - 1), 10**digits))


def magic(rng: random.Random, kind: ValueKind, words: Words) -> str:
    """Return a random number of seven digits, two words or a UUID."""
    if kind == "numbers":
        return random_number(rng, 7)
    return words.key(rng) if kind == "words" else str(uuid.UUID(int=rng.getrandbits(128), version=4))


_TRIES = 100  # for each text that is wanted


def distinct(make: Callable[[], str], number: int, without: Iterable[str] = ()) -> list[str]:
    """Return different texts, none of them among those to leave out.

    Raises:
        ValueError: If `make` returns too few different texts.
    """
    left_out = set(without)
    made: dict[str, None] = {}
    for _ in range(_TRIES * number):
        if (text := make()) not in left_out:
            made[text] = None
        if len(made) == number:
            return list(made)
    raise ValueError(f"there are too few words for {number} different keys")


def inserted(rng: random.Random, lines: Sequence[str], extra: Sequence[str]) -> list[str]:
    """Return lines with extra ones before random lines, in their order."""
    before = dict(zip(sorted(rng.sample(range(len(lines)), len(extra))), extra, strict=True))
    return [text for place, line in enumerate(lines) for text in (before.get(place), line) if text is not None]


@dataclass(frozen=True)
class Question:
    """A question about documents.

    Attributes:
        text: The question.
        answers: The accepted answers.
        own: The indices of the documents that always stand in the prompt.
        related: The indices of the documents that are added first.
    """

    text: str
    answers: list[str]
    own: list[int]
    related: list[int]


def read_squad(articles: Iterable[dict[str, Any]]) -> tuple[list[Question], list[str]]:
    """Return SQuAD's answerable questions, and all paragraphs as documents."""
    articles = list(articles)
    documents = sorted({each["context"] for article in articles for each in article["paragraphs"]})
    places = {text: place for place, text in enumerate(documents)}
    questions = []
    for article in articles:
        article_places = list(dict.fromkeys(places[each["context"]] for each in article["paragraphs"]))
        for paragraph in article["paragraphs"]:
            own = places[paragraph["context"]]
            related = [place for place in article_places if place != own]
            questions += [
                Question(asked["question"], [answer["text"] for answer in asked["answers"]], [own], related)
                for asked in paragraph["qas"]
                if not asked["is_impossible"]
            ]
    return questions, documents


def read_hotpot(rows: Iterable[dict[str, Any]]) -> tuple[list[Question], list[str]]:
    """Return HotpotQA's questions with their ten documents each, and all documents."""
    read = [(row["question"], row["answer"], [f"{t}\n{''.join(s)}" for t, s in row["context"]]) for row in rows]
    documents = sorted({text for _, _, texts in read for text in texts})
    places = {text: place for place, text in enumerate(documents)}
    questions = [
        Question(question, [answer], list(dict.fromkeys(places[text] for text in texts)), [])
        for question, answer, texts in read
    ]
    return questions, documents
