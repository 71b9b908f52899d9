"""VerifIF's rules: for each what follows it and what does not, in several languages."""

import pytest
from constraint_cases import every_case, has_cases_of_all

from gym_llm.grading.constraints.verifif import constraint
from gym_llm.grading.constraints.verifif_text import count_keyword, paragraphs_of, sentences_of, words_of

TWO = {"relation": "equal to"}
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"

CASES = {  # id: [(arguments, texts that follow it, texts that do not)]
    "keywords:existence": [({"keywords": ["Red", "big  fox"]}, ["A BIG\nfox is red."], ["redder big fox", ""])],
    "keywords:frequency": [
        ({"keyword": "red", "frequency": 2, **TWO}, ["Red, (red)"], ["red", "red reds", "red red red"])
    ],
    "keywords:forbidden_words": [({"forbidden_words": ["élite"]}, ["elite"], ["L’Élite!", "e\u0301lite"])],
    "keywords:letter_frequency": [({"letter": "e", "let_relation": "at least", "let_frequency": 2}, ["Ee"], ["eé"])],
    "keywords:alliteration": [({"target_letter": "S", "num_alliteration": 2, **TWO}, ["so it is sad"], ["so"])],
    "keywords:palindrome_word": [({"min_length": 3}, ["so Anna!"], ["so an a"])],
    "keywords:positioning": [({"keyword": "Red", "position": 1}, ["so, red"], ["red", ""])],
    "keywords:vowel_count": [({"num_vowels": 2, "language": "fre", **TWO}, ["été"], ["ete a"])],
    "keywords:consonant_count": [({"num_consonants": 2, **TWO}, ["abec 1"], ["abcd"])],
    "length_constraints:number_characters": [({"num_chars": 2, **TWO}, [" ab\n"], ["abc"])],
    "length_constraints:number_words": [
        ({"num_words": 2, **TWO}, ["1. it's so", "- a b"], ["a b c", "a"]),
        ({"num_words": 2, "language": "it", **TWO}, ["l'amico"], ["amico"]),
        ({"num_words": 2, "language": "zh", **TWO}, ["我爱。"], ["我"]),
        ({"num_words": 2, "language": "hi", **TWO}, ["नमस्ते दुनिया।"], ["नमस्ते"]),
        ({"num_words": 2, "language": "ko", **TWO}, ["안녕 세계"], ["안녕"]),
    ],
    "length_constraints:unique_words": [({"num_unique": 2, **TWO}, ["So it so"], ["so"])],
    "length_constraints:word_repetition": [({"max_repeats": 1}, ["so it", ""], ["so So"])],
    "length_constraints:word_length": [({"min_length": 2, "max_length": 3}, ["so the"], ["a", "four"])],
    "length_constraints:avg_word_length": [({"min_ratio": 2, "max_ratio": 2.5}, ["so", "so the"], ["a", "the", ""])],
    "length_constraints:sentence_length": [({"max_words": 2}, ["So it. Is it?"], ["So it is."])],
    "length_constraints:paragraph_length": [
        ({"words_per_paragraph": 2, **TWO}, ["a b\n\nc d", "# T\n\na b"], ["a\n\nb c"])
    ],
    "detectable_format:sentence_count": [
        ({"num_sentences": 2, **TWO}, ["So it is. Yes!", "- a\n- b"], ["Mr. J. Doe", "a"]),
        ({"num_sentences": 2, "language": "ja", **TWO}, ["はい。いいえ！"], ["はい。"]),
        ({"num_sentences": 2, "language": "hi", **TWO}, ["हाँ। नहीं।"], ["हाँ।"]),
        ({"num_sentences": 2, "language": "ar", **TWO}, ["نعم؟ لا."], ["نعم؟"]),
    ],
    "detectable_format:sentences_per_paragraph": [({"num_sentences": 1, **TWO}, ["a.\n\nb", ""], ["So. It.\n\nc"])],
    "startend:start_checker": [({"start_phrase": "Once upon"}, ['"once  upon a'], ["So once upon", ""])],
    "startend:end_checker": [
        ({"end_phrase": "the end"}, ["It is The End."], ["the end is", ""]),
        ({"end_phrase": "The end."}, ["So, the  end."], ["the end"]),
    ],
    "startend:wrap_checker": [({"wrap_phrase": "**"}, ["**a**"], ["**", "**a", ""])],
    "startend:quotation": [({}, ['"a"'], ['"', '"a'])],
    "change_case:all_caps": [({}, ["ÉTÉ 1"], ["Été", "1"])],
    "change_case:lowercase": [({}, ["été 1"], ["Été", "1"])],
    "change_case:alternating": [({}, ["aBa bAb", "1"], ["abA"])],
    "change_case:first_letter_cap": [({}, ["The Cat 42nd (So)"], ["The cat", "THe", "4Th"])],
    "change_case:capital_word_frequency": [
        ({"capital_relation": "less than", "capital_frequency": 1}, ["none"], ["ONE"])
    ],
    "change_case:lowercase_word_frequency": [
        ({"lowercase_relation": "at least", "lowercase_frequency": 1}, ["NOT one"], ["NONE"])
    ],
    "change_case:all_caps_target": [
        ({"target_string": "red fox"}, ["A RED FOX."], ["a Red FOX", "redder", "İ red fox"])
    ],
    "change_case:lowercase_target": [({"target_string": "Red"}, ["It IS red."], ["Red red", "none"])],
    "change_case:alternating_target": [({"target_string": "red"}, ["rEd"], ["reD", "none"])],
    "change_case:first_letter_cap_target": [({"target_string": "red"}, ["Red"], ["red", "none"])],
    "change_case:case_ratio": [({"min_fraction": "1/2", "max_fraction": "2"}, ["aA", "aaA"], ["aaaA", "a", "1"])],
    "change_case:vowel_consonant_balance": [({"min_fraction": "1", "max_fraction": "inf"}, ["aab", "a"], ["b", "1"])],
    "change_case:first_letter_sentence": [({}, ["¿So? (It is)", "1 a."], ["So. it is"])],
    "change_case:last_letter": [
        ({"case": "uppercase"}, ["so IT."], ["so it", ""]),
        ({"case": "digit"}, ["at (5)."], ["five"]),
        ({"case": "special"}, ["100 %"], ["100"]),
    ],
    "detectable_content:number_placeholders": [({"num_placeholders": 1, **TWO}, ["[a]"], ["[a] [b]"])],
    "detectable_content:postscript": [({"postscript_marker": "PS:"}, ["a\nPS: b\n"], ["PS: b\na", "PS:", ""])],
    "detectable_content:numeric_inclusion": [({"num_numbers": 2, **TWO}, ["42"], ["4"])],
    "detectable_format:json_format": [({}, ['So: {"a": 1}.'], ["{a}", "", "}{", "{" * 9])],
    "detectable_format:multiple_sections": [
        (
            {"section_splitter": "Part", "num_sections": 1, **TWO},
            ["## part 1"],
            ["Part 1", "#Part 1", "# Part 1\n# Part 2"],
        )
    ],
    "detectable_format:numbered_list": [({"num_numbered_items": 2, **TWO}, ["1. a\n 2) b"], ["1. a", "a 1. 2."])],
    "detectable_format:number_bullet_lists": [({"num_bullets": 2, **TWO}, ["* a\n- b"], ["* a\n - b", "*a\n-b"])],
    "detectable_format:title": [({}, ["<<So>>\nit"], ["So\n<<it>>", "<<>>", ""])],
    "detectable_format:number_paragraphs": [
        ({"num_paragraphs": 2, **TWO}, [f"<<T>>\n\na\n---\nb\n\n{TABLE}"], ["a\nb", "a\n\nb\n\nc", ""])
    ],
    "detectable_format:max_paragraph_length": [({"max_chars": 3}, ["- abc\n\nab"], ["abcd"])],
    "detectable_format:nested_list": [
        (
            {"min_depth": 2, "num_subitems": 2},
            ["* a\n  * b\n  * c\n* d", "1. a\n  1. b\n  2. c"],
            ["* a\n  * b\n* c", "* a"],
        )
    ],
    "detectable_format:table": [
        ({"min_rows": 2, "min_cols": 2}, [f"So:\n{TABLE}\nso"], [TABLE[:-9], "| a |\n| b |", "", "|"])
    ],
    "detectable_format:heading_depth": [({"levels": [1, 3]}, ["# a\n### b"], ["# a", "#a\n###b"])],
    "detectable_format:sentence_endings": [({"min_variants": 2}, ["So. It!"], ["So. It.", "1. So."])],
    "punctuation:no_comma": [({}, ["a; b"], ["a, b", "a、b", "a، b"])],
    "punctuation:no_period": [({}, ["a!"], ["a.", "a。", "a।"])],
    "punctuation:question_exclaim": [({"num_marks": 2, **TWO}, ["So? It!", "？؟"], ["So."])],
    "punctuation:end_rule": [({"allowed": ["!", "..."]}, ["So! It..."], ["So.", "So?!"])],
}


def test_there_are_cases_of_all_rules():
    assert len(constraint) == 55 and has_cases_of_all(constraint, CASES)


@every_case(CASES)
def test_what_follows_and_what_does_not(name, given, text, followed):
    assert constraint.read(name, given)(text) is followed


@pytest.mark.parametrize("ratio", ["1/0", "x", ""])
def test_a_ratio_is_a_number(ratio):
    with pytest.raises(ValueError, match="change_case:case_ratio: min_fraction"):
        constraint.read("change_case:case_ratio", {"min_fraction": ratio, "max_fraction": "2"})


@pytest.mark.parametrize(
    ("text", "keyword", "language", "count"),
    [
        ("der Ärger, ÄRGER", "ärger", "de", 2),
        ("كِتَاب", "كتاب", "ar", 1),
        ("나는 책을 읽는다", "책", "ko", 1),
        ("हिन्दी हिन्दीभाषा", "हिन्दी", "hi", 1),
        ("l'ami de l’ami", "ami", "fre", 2),
        ("c++ c", "c++", "en", 1),
    ],
)
def test_keywords_are_words_of_their_own(text, keyword, language, count):
    assert count_keyword(text, keyword, language) == count


def test_lists_tables_and_titles_are_no_words():
    assert words_of("2. two words\n# so", "en") == ["two", "words", "so"]
    assert sentences_of(f"# So\n{TABLE}\n***\nIt is.", "en") == ["So", "It is."]
    assert paragraphs_of("# So\nit is\n \n\nso") == ["it is", "so"]
