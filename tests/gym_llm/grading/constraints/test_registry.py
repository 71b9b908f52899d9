"""What rows may ask for, and how they are told that they ask wrongly."""

import pickle

import pytest

from gym_llm.grading.constraints.constraint import Registry
from gym_llm.grading.constraints.ifevalg import constraint


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("keywords:existance", {}, "has no constraint 'keywords:existance'. Did you mean keywords:existence?"),
        ("keywords:existence", {}, "keywords:existence: keywords: Field required"),
        ("keywords:existence", {"keywords": None}, "keywords: Field required"),
        ("keywords:existence", {"keywords": []}, "keywords:existence: keywords: List should have at least 1"),
        ("keywords:existence", {"keywords": ["a"], "keyword": "b"}, "keyword: Extra inputs are not permitted"),
        ("keywords:word_once", {"keyword": " "}, "keywords:word_once: keyword: Value should have at least 1"),
        ("keywords:letter_frequency", {"letter": "ab", "let_frequency": 1, "let_relation": "at least"}, "letter: "),
        ("length_constraints:number_words", {"num_words": -1, "relation": "at least"}, "num_words: "),
        ("length_constraints:number_words", {"num_words": 1.5, "relation": "at least"}, "num_words: "),
        ("length_constraints:number_words", {"num_words": 1, "relation": "at most"}, "relation: Input should be"),
    ],
)
def test_a_wrong_constraint_is_named(name, given, said):
    with pytest.raises(ValueError) as error:
        constraint.read(name, given)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_whole_numbers_may_be_written_as_pandas_writes_them():
    given = {"num_words": 2.0, "relation": "at least", "keyword": None}
    assert constraint.read("length_constraints:number_words", given)("two words")


def test_as_many_arguments_as_constraints_are_needed():
    with pytest.raises(ValueError, match="2 constraints are named, and arguments given for 1"):
        constraint.read_all(["punctuation:no_comma"] * 2, [{}])


def test_a_check_pickles():
    check = pickle.loads(pickle.dumps(constraint.read("keywords:existence", {"keywords": ["red"]})))
    assert check("red") and not check("blue")


def test_a_name_is_given_once():
    registry = Registry("test", constraint)
    with pytest.raises(ValueError, match="has a constraint punctuation:no_comma already"):
        registry("punctuation:no_comma")(lambda text: True)
    assert len(registry) == len(constraint)


def test_a_package_that_is_not_installed_is_named():
    registry = Registry("test")

    @registry("test:needy", package="no_such_package")
    def needy(text: str) -> bool:
        return True

    with pytest.raises(ValueError, match="test:needy needs no_such_package, which is not installed: pip install"):
        registry.read("test:needy")
