"""IFEval's and IFEvalG's constraints: for each what follows it and what does not."""

from typing import Any

import pytest
from constraint_cases import every_case, has_cases_of_all

from gym_llm.grading.constraints.following import Job, follow
from gym_llm.grading.constraints.ifeval import constraint as ifeval
from gym_llm.grading.constraints.ifevalg import constraint

AT_LEAST, LESS = "at least", "less than"
ENGLISH = "this sentence is written in plain english and only in small letters"

CASES = {  # id: [(arguments, texts that follow it, texts that do not)]
    "keywords:existence": [({"keywords": ["Red", "c++"]}, ["C++ is redder"], ["red", "c+ red", ""])],
    "keywords:frequency": [
        ({"keyword": " red ", "frequency": 2, "relation": AT_LEAST}, ["Red, reddish"], ["red", ""]),
        ({"keyword": "red", "frequency": 2, "relation": LESS}, ["Red", ""], ["red red"]),
    ],
    "keywords:forbidden_words": [
        ({"forbidden_words": ["cat", "c++"]}, ["a category", "tomcat", "c+"], ["a Cat.", "C++", "cat-like", "cat"])
    ],
    "keywords:letter_frequency": [
        ({"letter": "Q", "let_frequency": 2, "let_relation": AT_LEAST}, ["Quq"], ["q", ""]),
        ({"letter": "#", "let_frequency": 1, "let_relation": LESS}, ["Quq"], ["#"]),
    ],
    "language:response_language": [
        ({"language": "fr"}, ["Bonjour tout le monde, comment allez-vous aujourd'hui ?", "123"], [ENGLISH]),
        ({"language": "zh"}, ["今天天气很好，我们一起去公园散步吧。"], [ENGLISH]),
    ],
    "length_constraints:number_sentences": [
        (
            {"num_sentences": 2, "relation": AT_LEAST},
            ["Yes! No?", "He came. It rained."],
            ["Mr. J. Doe came.", "3.5"],
        ),
        ({"num_sentences": 2, "relation": LESS}, ["I like e.g. tea", ""], ["He left. It rained."]),
    ],
    "length_constraints:number_paragraphs": [
        ({"num_paragraphs": 2}, ["a***b", "a *** b\n***\n", "***a***b"], ["a", "a******b", "a\n\nb", ""])
    ],
    "length_constraints:number_words": [
        ({"num_words": 3, "relation": AT_LEAST}, ["it's so", "one two three"], ["one two", "... - ?"]),
        ({"num_words": 3, "relation": LESS}, ["one two", ""], ["日 本 語"]),
    ],
    "length_constraints:nth_paragraph_first_word": [
        (
            {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Then"},
            [
                *("first\n\nthen, it", "first\n\n'Then' it", "first\n\n\n\nThen it", "\n\na\n\nthen", "a\n \nthen"),
                *(
                    "a\n\n**Then** it",
                    "a\n\n# Then\nb",
                    "a\n\n> *then* b",
                    "a\n\nThen: b",
                    "a\n\n- then b",
                    "a\n\n“Then” b",
                ),
                *("a\n\nThen's b", "a\n\n\n\n\nthen\n\n\n"),
            ],
            [
                "first\n\nNow",
                "then",
                "a\n\nthen\n\nb",
                "a\nthen",
                "a\n\nthen-and",
                "a\n\nThence",
                "a\n\n** **\n\nthen",
                "",
            ],
        ),
        (
            {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "e-mail"},
            ["E-mail is\n\nb", "\n\n**E-mail**: a\n\nb"],
            ["E mail\n\nb", "a\n\ne-mail"],
        ),
    ],
    "detectable_content:number_placeholders": [
        ({"num_placeholders": 2}, ["[a] and [b]", "[a [b] []"], ["[a\n] [b]", "[a] [b", ""])
    ],
    "detectable_content:postscript": [
        ({"postscript_marker": "P.S."}, ["x\nP. s. hello", "p.s."], ["PS: hello"]),
        ({"postscript_marker": "P.P.S"}, ["p.p.s. hello", "P. P. S"], ["P.S. hello"]),
        ({"postscript_marker": "NB:"}, ["so.\nnb: hello"], ["NB hello"]),
    ],
    "detectable_format:number_bullet_lists": [
        (
            {"num_bullets": 2},
            [
                "* a\n  - b",
                "*a\n\n\n-b\ntext",
                "- a\n---\n- b",
                "* * *\n- a\n* b\n- - -",
                "-- x\n- a\n-> y\n- b\n--",
                "*so* it is:\n- a\n- b\n-5 is less",
            ],
            ["* a", "** a\n* b", "*\n- a", "a - b - c", "- a\n---\nend"],
        )
    ],
    "detectable_format:constrained_response": [({}, ["Well: My answer is no."], ["no", "my answer is no."])],
    "detectable_format:number_highlighted_sections": [
        ({"num_highlights": 2}, ["*a* and *b*", "**a** *b*"], ["*a*", "** ** * *", "*a\nb* *", ""])
    ],
    "detectable_format:multiple_sections": [
        (
            {"section_spliter": "Part ", "num_sections": 2},
            ["Part 1 x\nPart 22 y"],
            ["Part 1", "part 1 part 2", "Part A"],
        )
    ],
    "detectable_format:json_format": [
        ({}, ['{"a": [1]}', "```json\n[1]\n```", "```\nnull```", " 1 "], ["{", "[1] so", "NaN", "", "[" * 10_000])
    ],
    "detectable_format:title": [
        (
            {},
            [
                "<<a>>",
                "x\n<<<a b>> y",
                "<< a b >>",
                "# Title: << a >>",
                "**<< a >>**",
                "x <<a>>, y",
                "<<a>>는",
                "Title: <<a>>",
            ],
            [
                *(
                    "<<>>",
                    "<< >>",
                    "<<a\nb>>",
                    "<a>",
                    ">><<",
                    "<" * 99,
                    "",
                    "cout << x >> y",
                    "x<<2>>1",
                    "cin >> x; cout << y",
                ),
                *(
                    "int z = a << b >> c;",
                    "cat << EOF >> file",
                    "std::cout << a << b; std::cin >> c",
                    "if (a << b >> c)",
                ),
            ],
        )
    ],
    "combination:two_responses": [({}, ["a******b", "******a\n******\nb******"], ["a******a", "a******b******c", ""])],
    "combination:repeat_prompt": [({"prompt_to_repeat": "Who ?"}, ["  who ? I."], ["I. Who ?", ""])],
    "startend:end_checker": [({"end_phrase": " The End. "}, ["so.\nthe end.", '"The End."  '], ["The End. Bye", ""])],
    "startend:quotation": [({}, [' "a" ', '""'], ['"', '"a', "'a'", ""])],
    "change_case:capital_word_frequency": [
        ({"capital_frequency": 2, "capital_relation": AT_LEAST}, ["I am BIG", "NATO's A-Z"], ["I am", "Nato A1b", ""]),
        ({"capital_frequency": 1, "capital_relation": LESS}, ["none of it", "123"], ["WELL-KNOWN"]),
    ],
    "change_case:english_capital": [({}, [ENGLISH.upper()], [ENGLISH, "CECI EST UNE PHRASE EN FRANÇAIS", "123"])],
    "change_case:english_lowercase": [({}, [ENGLISH], [ENGLISH.upper(), "ceci est une phrase en français", "123"])],
    "punctuation:no_comma": [({}, ["a; b"], ["a, b"])],
    "copy:repeat_phrase": [
        (
            {"phrase": "the red fox", "small_n": 2},
            ["the old fox and the big fox"],
            [
                "the old fox",
                "the red fox, the old fox",
                "the very old fox the big fox",
                "the fox the fox",
                "",
                "the " * 99,
            ],
        )
    ],
    "copy:copy": [({"prompt_to_repeat": "Say hi "}, [" say HI\n"], ["Say hi! Hi", ""])],
    "copy:copying_simple": [({"prompt_to_repeat": "Say hi"}, ["say hi"], ["hi", ""])],
    "copy:copying_multiple": [({"prompt_to_repeat": "a", "N": 2}, ["A\n******\na"], ["a", "a******a******a"])],
    "new:copy_span_idx": [({"prompt_to_repeat": "Hello you", "n_start": 0, "n_end": 5}, ["hello"], ["Hello you", ""])],
    "detectable_format:sentence_hyphens": [({}, ["I am.-You are."], ["I am. You are.", "I am. - You are."])],
    "detectable_format:square_brackets": [({}, ["[I] [am]"], ["[I am]", "[I] am"])],
    "detectable_format:bigram_wrapping": [({}, ["<<I am>> <<at home>> now"], ["<<I am>> at home", "I am"])],
    "keywords:no_adjacent_consecutive": [({}, ["a cat", "b a"], ["A bee", "İ x y z"])],
    "keywords:word_once": [({"keyword": "red"}, ["Reddish"], ["red red", ""])],
    "keywords:word_count_different_numbers": [
        ({"keyword": "red", "frequency": 2, "relation": AT_LEAST}, ["red Red"], ["red"])
    ],
    "keywords:exclude_word_harder": [({"keyword": "red"}, ["red, so red", "Red red"], ["so red it"])],
    "keywords:palindrome": [({}, ["so anna", "I"], ["so Anna?", ""])],
    "keywords:keyword_specific_position": [
        ({"keyword": ["red"], "n": 2, "m": 3}, ["Hi. It's red."], ["Hi. So red.", "It is red.", ""]),
    ],
    "keywords:start_end": [({}, ["Go on, go", "a A"], ["go on go.", "go", ""])],
    "paragraphs:paragraphs": [({}, ["a***b", "a\n***\nb\n***"], ["a\n\nb", "a***b***c", "a******b", "a"])],
    "paragraphs:paragraphs2": [
        ({}, ["a\n\nb", "\n\na\n\nb\n\n", "a\n\n\n\nb", "a\n \nb"], ["a***b", "a\n\nb\n\nc", "a\nb"])
    ],
    "first_word:first_word_sent": [({"first_word": "so"}, ["So he. So she!"], ["So he. She!", "So, he."])],
    "first_word:first_word_answer": [({"first_word": "So"}, [" so he"], ["So, he", ""])],
    "last_word:last_word_sent": [({"last_word": "So"}, ["Is it so? It is so."], ["It is so. Yes."])],
    "last_word:last_word_answer": [({"last_word": "so"}, ["It is (So)!"], ["so it is", ""])],
    "punctuation:punctuation_dot": [({}, ["a!"], ["a."])],
    "punctuation:punctuation_exclamation": [({}, ["a."], ["a!"])],
    "count:lowercase_counting": [({"N": 2}, ["a b C D1 é"], ["a b c"])],
    "letters:letter_counting": [
        ({"N": 3, "relation": AT_LEAST}, ["a1B-c"], ["ab é"]),
        ({"N": 3, "relation": LESS}, ["ab", ""], ["abc"]),
    ],
    "letters:letter_counting2": [({"letter": "a", "let_frequency": 2, "let_relation": LESS}, ["A", ""], ["Aa"])],
    "count:counting_composition": [
        (
            {"n_sent": 1, "n_words": 3},
            ["I am.***Who is?\n***\nWe go!"],
            ["I am.***Who?***We go!", "I am.***We go."],
        )
    ],
    "count:count_unique": [({}, ["I am what you are.", '"I am"'], ["I am. You are.", "so so"])],
    "count:count_increment_word": [({"keyword1": "a", "keyword2": "b"}, ["abB"], ["ab", "aabb", ""])],
}


def test_there_are_cases_of_all_54():
    assert len(ifeval) == 25 and len(constraint) == 54 and has_cases_of_all(constraint, CASES)


@every_case(CASES)
def test_what_follows_and_what_does_not(name, given, text, followed):
    assert constraint.read(name, given)(text) is followed


@pytest.mark.parametrize(
    ("name", "given", "text", "official"),
    [
        ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "b"},
         "a\n\n\n\nb c", False),
        ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "b"},
         "a\n\n**B** c", False),
        ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "b"},
         "a\n\n\u200bB c", False),
        ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "- a\n---\n- b", False),
        ("detectable_format:title", {}, "cout << x >> y", True),
        ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "2 * 3 * 4", True),
        ("paragraphs:paragraphs2", {}, "a\n\n\n\nb", False),
    ],
)  # fmt: skip
def test_to_conform_the_official_rule_counts(name: str, given: dict[str, Any], text: str, official: bool) -> None:
    check = constraint.read(name, given)
    assert (check(text), check(text, conform=True)) == (not official, official)
    assert follow(Job(text, (check,), conform=True)).strict == [official]
