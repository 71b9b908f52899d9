"""RULER and RULER v2: samples have the wanted length, their references follow from the prompt, and are paid."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, cast

import gymnasium as gym
import pytest
from audited import filled

from gym_llm.author.audit import audit
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.benchmarks import ruler, ruler2
from gym_llm.data.benchmarks.ruler_lengths import Draft, endless, filling, fitting, size_of
from gym_llm.data.benchmarks.ruler_texts import Words, distinct
from gym_llm.data.recipes.catalogue import find_benchmark
from gym_llm.errors import DataError

Rows = list[dict[str, Any]]

_TOKEN = re.compile(r"[^\W\d]+|\d{1,3}|[^\w\s]")
_SUBSETS = (*ruler._NEEDLES, "vt", "cwe", "fwe", "qa_1", "qa_2")
_TREES = [
    "ash",
    "beech",
    "cedar",
    "dogwood",
    "elm",
    "fir",
    "gorse",
    "hazel",
    "ivy",
    "juniper",
    "larch",
    "maple",
    "oak",
    "pine",
    "rowan",
    "spruce",
    "willow",
    "yew",
]


def count(text: str) -> int:
    """Count words, digits in groups of three, and marks."""
    return len(_TOKEN.findall(text))


def invented(first: str) -> dict[str, Any]:
    """Return a word list's raw row."""
    return {"text": "".join(f"{first}{''.join(rest)}\n" for rest in itertools.product("aeiou", "lmnr", "aeiou"))}


def document(rng: random.Random) -> str:
    return " ".join(rng.choices(_TREES, k=rng.randint(20, 60))).capitalize() + "."


RANDOM = random.Random(1)
WORDS: dict[str, Rows] = {"nouns": [invented(c) for c in "bcdfgh"], "adjectives": [invented(c) for c in "jklm"]}
HOTPOT: Rows = [
    {
        "question": f"Which number has tree {n}?",
        "answer": f"number{n}",
        "context": [[f"Tree {n} {place}", [document(RANDOM), f" It has number{n}."]] for place in range(10)],
    }
    for n in range(110)
]
RULER: dict[str, Rows] = {
    **WORDS,
    "essays": [{"text": "\n\n".join(document(RANDOM) for _ in range(30))} for _ in range(3)],
    "verbs": [invented(c) for c in "npqrst"],
    "squad": [
        {
            "title": f"Forest {forest}",
            "paragraphs": [
                {
                    "context": f"{document(RANDOM)} Path {forest} {path} leads to place{forest}x{path}.",
                    "qas": [
                        {
                            "question": f"Where does path {forest} {path} lead?",
                            "answers": [{"text": f"place{forest}x{path}"}],
                            "is_impossible": False,
                        },
                        {"question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
                for path in range(11)
            ],
        }
        for forest in range(10)
    ],
    "hotpotqa": HOTPOT,
}


def choice(number: int) -> dict[str, Any]:
    text = f"{number}. {document(RANDOM)}\nWhich tree comes\n first?"
    return {"question": text, "choices": RANDOM.sample(_TREES, 4), "answer": number % 4, "subject": "botany"}


RULER2: dict[str, Rows] = {
    **WORDS,
    "questions": [choice(number) for number in range(120)],
    "haystack": [choice(number) for number in range(1000, 1300)],
    "hotpotqa": [
        {
            "question": row["question"],
            "answer": row["answer"],
            "context": {"title": [t for t, _ in row["context"]], "sentences": [s for _, s in row["context"]]},
            "supporting_facts": {"title": [row["context"][7][0], row["context"][2][0]], "sent_id": [0, 1]},
        }
        for row in HOTPOT
    ],
}
TABLES = {"ruler": RULER, "ruler2": RULER2}


@pytest.fixture(scope="module", autouse=True)
def counted() -> Iterable[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ruler, "count_tokens", count)
        patch.setattr(ruler2, "count_tokens", count)
        yield


def tasks_of(name: str) -> Rows:
    recipe = find_benchmark(name)
    tables = TABLES[recipe.name.partition(":")[0]]
    labels = list(dict.fromkeys(source.label for source in recipe.sources if source.label in tables))
    assert set(labels) == set(tables), "the recipe fetches what the conversion reads"
    sources = [next(source for source in recipe.sources if source.label == label) for label in labels]
    return list(recipe.tasks_of([(source, tables[source.label]) for source in sources]))


@pytest.fixture(scope="module")
def short() -> dict[str, Rows]:
    """RULER's samples of 4,096 tokens by subset."""
    return by(tasks_of("ruler:4k"), "subset")


@pytest.fixture(scope="module")
def short2() -> dict[str, Rows]:
    """RULER v2's samples of 4,096 tokens by task."""
    return by(tasks_of("ruler2:4k"), "task")


def by(tasks: Rows, field: str) -> dict[str, Rows]:
    groups: dict[str, Rows] = defaultdict(list)
    for task in tasks:
        groups[task[field]].append(task)
    return dict(groups)


def prompt_of(task: dict[str, Any]) -> str:
    return str(task["responses_create_params"]["input"][0]["content"])


def between(text: str, before: str, after: str) -> str:
    """Return the text after the last of one text, and before another."""
    return text.rpartition(before)[2].partition(after)[0]


def test_there_are_a_hundred_samples_of_each_subset(short: dict[str, Rows], short2: dict[str, Rows]) -> None:
    assert tuple(short) == _SUBSETS and tuple(short2) == ruler2.TASKS
    assert all(len(rows) == 100 for rows in (*short.values(), *short2.values()))
    assert find_benchmark("ruler").rows == find_benchmark("ruler:128k_pretrain").rows == 1300
    assert find_benchmark("ruler2").rows == find_benchmark("ruler2:64k").rows == 1200
    assert all(len({prompt_of(row) for row in rows}) == 100 for rows in short.values())


@pytest.mark.parametrize(("name", "length"), [("ruler:4k", 4096), ("ruler:8k", 8192), ("ruler2:8k", 8192)])
def test_a_prompt_has_nearly_the_wanted_length(name: str, length: int) -> None:
    tasks = tasks_of(name)
    groups = by(tasks, "subset" if name.startswith("ruler:") else "task")
    assert all(length * 0.9 <= task["length"] <= length for task in tasks), {
        group: (min(task["length"] for task in rows), max(task["length"] for task in rows))
        for group, rows in groups.items()
    }


def test_a_length_counts_the_prompt_and_room_for_the_answer(short: dict[str, Rows], short2: dict[str, Rows]) -> None:
    for task in (rows[7] for rows in short.values()):
        room = task["length"] - count(prompt_of(task))
        assert 30 <= room <= 200, "an answer, and its beginning"
    assert all(rows[7]["length"] == count(rows[7]["question"]) for rows in short2.values())


@pytest.mark.parametrize("name", ["ruler:4k", "ruler2:4k"])
def test_the_same_rows_make_the_same_tasks(name: str, short: dict[str, Rows], short2: dict[str, Rows]) -> None:
    first = short if name == "ruler:4k" else short2
    assert tasks_of(name) == [task for rows in first.values() for task in rows]


@pytest.mark.parametrize("name", ["ruler", "ruler2"])
def test_the_verifier_pays_the_references_and_nothing_else(
    name: str, short: dict[str, Rows], short2: dict[str, Rows]
) -> None:
    recipe = find_benchmark(name)
    groups = (short if name == "ruler" else short2).values()
    tasks = [filled(recipe, task) for rows in groups for task in rows[:3]]

    def make() -> VerifierEnv:
        env = gym.make(cast(str, recipe.env_id), tasks=tasks, disable_env_checker=True)
        return cast(VerifierEnv, env.unwrapped)

    found = audit(recipe, make)
    assert found.official == found.rows == len(tasks), found.card()
    assert not found.junk["nothing"] and not found.junk["a refusal"], found.card()


@pytest.mark.parametrize("subset", ruler._NEEDLES)
def test_needles_name_the_references(subset: str, short: dict[str, Rows]) -> None:
    shape = ruler._NEEDLES[subset]
    kind = shape.value_kind
    for task in short[subset]:
        prompt = prompt_of(task)
        asked = re.search(r"\nWhat (?:is|are all) the special magic \w+ for (.+) mentioned in the provided", prompt)
        assert asked, prompt[-200:]
        keys = re.split(r", and |, ", asked[1])
        values = [
            value
            for key in keys
            for value in re.findall(rf"One of the special magic {kind} for {re.escape(key)} is: (\S+)\.", prompt)
        ]
        assert len(keys) == shape.queries and len(values) == shape.queries * shape.values
        assert sorted(values) == sorted(task["outputs"])


def test_variables_follow_from_the_assignments(short: dict[str, Rows]) -> None:
    for task in short["vt"]:
        text = prompt_of(task).rpartition("Memorize and track")[2]
        values: dict[str, str] = {}
        for name, value in re.findall(r"VAR (\w+) = (?:VAR )?(\w+)", text):
            values[name] = values.get(value, value)
        wanted = re.search(r"assigned the value (\d+) in the text above\.$", text)
        assert wanted and [name for name, value in values.items() if value == wanted[1]] == task["outputs"]
        assert len(task["outputs"]) == 5


def test_common_words_are_the_ten_most_frequent(short: dict[str, Rows]) -> None:
    for task in short["cwe"]:
        words = re.findall(r"\d+\. (\S+)", between(prompt_of(task), "appear most often.\n", "\nQuestion:"))
        ranked = Counter(words).most_common()
        assert {word for word, _ in ranked[:10]} == set(task["outputs"])
        assert ranked[9][1] > ranked[10][1]


def test_frequent_words_are_the_three_after_the_dots(short: dict[str, Rows]) -> None:
    for task in short["fwe"]:
        words = between(prompt_of(task), "appeared coded words. ", "\nQuestion:").split()
        ranked = Counter(words).most_common(5)
        assert ranked[0][0] == "..." and [word for word, _ in ranked[1:4]] == task["outputs"]
        assert ranked[3][1] > ranked[4][1]


@pytest.mark.parametrize("subset", ["qa_1", "qa_2"])
def test_documents_have_the_answers(subset: str, short: dict[str, Rows]) -> None:
    for task in short[subset]:
        assert all(answer in prompt_of(task).partition("Question:")[0] for answer in task["outputs"])
        numbers = [int(number) for number in re.findall(r"^Document (\d+):$", prompt_of(task), re.MULTILINE)]
        assert numbers == list(range(1, len(numbers) + 1))


def test_a_prompt_for_completion_ends_with_the_beginning_of_the_answer(short: dict[str, Rows]) -> None:
    completed = by(tasks_of("ruler:4k_pretrain"), "subset")
    for subset, tokens in (("niah_single_1", 128), ("vt", 30), ("cwe", 120), ("fwe", 50), ("qa_1", 32)):
        chat, task = short[subset][0], completed[subset][0]
        assert task["responses_create_params"]["max_output_tokens"] == tokens
        assert "max_output_tokens" not in chat["responses_create_params"]
        added = prompt_of(task).removeprefix(prompt_of(chat))
        assert added.startswith(("The special", "Answer:")) and task["outputs"] == chat["outputs"]


def asked_number(task: dict[str, Any]) -> str:
    return re.findall(r"Question (\d{7})", task["question"].rpartition("\n\n")[2])[-1]


def numbered(task: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the questions of a prompt with their numbers."""
    context = task["question"].partition("\n\n")[2].partition("Here are some examples")[0].rpartition("\n\n")[0]
    return re.findall(r"^Question (\d{7}): (.+)$", context, re.MULTILINE)


@pytest.mark.parametrize("task", ["mk_niah_basic", "mv_niah_basic"])
def test_needles_of_version_2_name_the_references(task: str, short2: dict[str, Rows]) -> None:
    for row in short2[task]:
        asked = re.search(r"magic numbers? for (\S+) mentioned in the provided text (?:is|are)$", row["question"])
        assert asked
        values = re.findall(rf"magic numbers for {re.escape(asked[1])} is: (\d{{10}})\.", row["question"])
        assert sorted(values) == sorted(row["expected_answer"]) and len(values) == (1 if task[1] == "k" else 4)


@pytest.mark.parametrize("task", ["mk_niah_easy", "mv_niah_easy", "mv_niah_medium", "mv_niah_hard"])
def test_questions_to_copy_stand_in_the_prompt(task: str, short2: dict[str, Rows]) -> None:
    for row in short2[task]:
        same = [text for number, text in numbered(row) if number == asked_number(row)]
        order = re.search(r"the (\d)(?:st|nd|rd|th) \(1 indexed\) Question", row["question"])
        assert bool(order) == (task in ("mv_niah_medium", "mv_niah_hard")) and len(same) <= 4
        assert row["expected_answer"] == ([same[int(order[1]) - 1]] if order else same)


@pytest.mark.parametrize("task", ["mk_niah_medium", "mk_niah_hard"])
def test_questions_to_solve_have_the_letter(task: str, short2: dict[str, Rows]) -> None:
    letters = {ruler2.read_choice(row).text: ruler2.read_choice(row).letter for row in RULER2["questions"]}
    for row in short2[task]:
        texts = dict(numbered(row))
        assert row["expected_answer"] == letters[texts[asked_number(row)]] and row["eval_type"] == "multichoice"
        examples = row["question"].partition("Here are some examples")[2]
        assert examples.count("\nSolution: \\boxed{") == 5 and "inside \\boxed\\{\\}." in row["question"]


@pytest.mark.parametrize("task", ["qa_basic", "qa_easy", "qa_medium", "qa_hard"])
def test_documents_have_the_answers_of_version_2(task: str, short2: dict[str, Rows]) -> None:
    for row in short2[task]:
        documents = dict(re.findall(r"^Document (\d{7}):\n(.+\n.+)$", row["question"], re.MULTILINE))
        number = row["index"]
        supporting = [
            next(n for n, text in documents.items() if text.startswith(f"Tree {number} {p}\n")) for p in (2, 7)
        ]
        if task == "qa_basic":
            assert row["expected_answer"] == supporting[:1]
            assert between(row["question"], "\n\nText: ", "\nMost relevant") == documents[supporting[0]]
        elif task == "qa_easy":
            assert row["expected_answer"] == supporting
        else:
            assert row["expected_answer"] == [f"number{number}"] and all(
                f"number{number}." in documents[each] for each in supporting
            )


def lines(rng: random.Random, number: int, size: int) -> Draft:
    return Draft(" ".join(["word"] * (5 + 3 * size)), ["a"])


def test_the_largest_haystack_is_estimated() -> None:
    size, slope = size_of(lines, random.Random(0), 1000, count, 5)
    assert slope == 3 and 0.98 * 1000 <= 5 + 3 * size <= 1000
    with pytest.raises(ValueError, match="shortest"):
        size_of(lines, random.Random(0), 19, count, 5)


def test_a_prompt_that_is_too_long_is_drawn_again() -> None:
    ((number, draft, tokens),) = fitting(lines, random.Random(0), [8], 100, count, size=90, slope=3)
    assert number == 8 and tokens == count(draft.prompt) == 98
    with pytest.raises(ValueError, match="does not fit"):
        list(fitting(lines, random.Random(0), [8], 4, count, size=9))


def test_items_fill_a_room() -> None:
    assert filling([5, 4, 9, 1, 1], lambda item, taken: item, 11) == [5, 4, 1, 1]
    order = list(itertools.islice(endless(random.Random(0), 6, 6, first_without=[2, 3]), 10))
    assert sorted(order[:4]) == [0, 1, 4, 5] and sorted(order[4:]) == [0, 1, 2, 3, 4, 5]


def test_a_longer_list_is_read_if_there_are_too_few_words() -> None:
    few, more = [{"text": "ash\nbeech \n\n"}], [{"0": "elm", "1": "fir", "2": "yew", "3": "elm"}]
    words = Words.read(few, few, [], more)
    assert sorted(words.sample(random.Random(0), 2)) == ["ash", "beech"]
    assert sorted(words.sample(random.Random(0), 3)) == ["elm", "fir", "yew"]
    with pytest.raises(ValueError, match="3 words"):
        words.sample(random.Random(0), 4)
    with pytest.raises(ValueError, match="too few words"):
        distinct(lambda: words.key(random.Random(0)), 5)
    assert list(endless(random.Random(0), 0, 8)) == []


def test_a_row_without_a_column_is_named() -> None:
    recipe = find_benchmark("ruler2")
    rows = {**RULER2, "haystack": [{"question": "Why?"}]}
    with pytest.raises(DataError, match="choices"):
        list(recipe.tasks_of([(source, rows[source.label]) for source in recipe.sources]))
