"""IFBench's constraints: for each what follows it and what does not."""

import string

import pytest
from constraint_cases import every_case, has_cases_of_all

from gym_llm.grading.constraints.english import count_syllables, is_emoji, is_verb
from gym_llm.grading.constraints.ifbench import constraint

QUESTIONS = "\n".join(f"Question {n}. Wh{'a' * n}t?\nA. a\nB) b\nC. c\nD. d\nE. e\n" for n in range(1, 5))
LETTERS = " ".join(f"{letter}nd so on." for letter in string.ascii_uppercase)
COUNTRIES = "\n".join(
    ["* Zimbabwe", *sorted((f"{a}{b}" for a in "YTSNM" for b in string.ascii_lowercase[:11]), reverse=True)]
)
CITIES = "ID,Country,City,Year,Count\n" + "1,Norway,Oslo,2000,3\n" * 7
PRODUCTS = "ProductID,Category,Brand,Price,Stock\n" + "1,a,b,2,3\n" * 13
GRADES = "StudentID\tSubject\tGrade\tSemester\tScore" + "\n1\ta\tb\tc\td" * 3
GRADES_QUOTED = "\n".join(["\t".join(f'"{name}"' for name in line.split("\t")) for line in GRADES.split("\n")])
PALINDROMES = "anna kayak level radar rotor refer civic madam tenet sagas Minim! solos stats "
CAPITALS = (
    "Reykjavík, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin, "
    "Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz, Chișinău, "
    "Bern, Ljubljana, Zagreb"
)

CASES = {  # id: [(arguments, texts that follow it, texts that do not)]
    "count:word_count_range": [({"min_words": 2, "max_words": 3}, ["a b", "it's so"], ["a", "a b c d", ""])],
    "count:unique_word_count": [({"N": 2}, ["so, it so"], ["So so!", ""])],
    "count:conjunctions": [({"small_n": 2}, ["and, but.", "And and"], ["and and", "andes but", ""])],
    "count:person_names": [({"N": 2}, ["Emma, Liam", "Josephine Ryan"], ["Emma Emma", "emma liam"])],
    "count:numbers": [({"N": 2}, ["3.5 and 1,000"], ["3 - 4 5", "none"])],
    "count:pronouns": [({"N": 2}, ["he/she", "I, me"], ["he'll see", "the"])],
    "count:punctuation": [({}, ["a, b. c! d? e; f: g?!", "‽ . , ! a ? ; :"], ["a, b. c! d?! e; f:", "a,.!?;:", ""])],
    "count:words_japanese": [({"N": 2}, ["a 日本 b (3) c", "a - b"], ["日本 a", "a", ""])],
    "count:keywords_multiple": [
        (
            {"keyword1": "a", "keyword2": "b ", "keyword3": "c", "keyword4": "d", "keyword5": "e"},
            ["abbcccdddddeeeeeee", "A BB CCC DDDDD EEEEEEE"],
            ["abbcccdddddeeeeee", ""],
        )
    ],
    "ratio:stop_words": [({"percentage": 50.0}, ["the cat", "cats"], ["is the cat", ""])],
    "ratio:sentence_type": [
        ({}, ["Yes. No. Why?", "Yes. No. Why? Oh!"], ["Yes. Why?", "hello", "Hello there friend!", "Yes. No."])
    ],
    "ratio:sentence_balance": [({}, ["Yes. No! Why?"], ["Yes. Why?", "hello", "Yes."])],
    "ratio:overlap": [({"reference_text": "abcd", "percentage": 50}, ["abcx"], ["abcd", "xyz", "ab"])],
    "ratio:sentence_words": [({}, ["Is he? I saw. Oh my!"], ["I am. You are. We are.", "I am. So he?", ""])],
    "sentence:keyword": [({"word": "Red", "N": 2}, ["So. It is reddish."], ["Red. So.", "Red", ""])],
    "sentence:increment": [({"small_n": 1}, ["So. It is. It is so.", "So"], ["So. It.", ""])],
    "sentence:alliteration_increment": [
        ({}, ["Cats. Big bears. So she sees it.", "a b"], ["Big bears. Cats.", "Cats. Dogs."])
    ],
    "words:alphabet": [({}, ["Yes, zebra: a bee"], ["a cat", "1 2", ""])],
    "words:vowel": [({}, ["banana tie", ""], ["a e i o", "a\nb"])],
    "words:consonants": [({}, ["the black strip"], ["the cat", "a"])],
    "words:palindrome": [({}, [PALINDROMES], [PALINDROMES[:40], "aba " * 20])],
    "words:prime_lengths": [({}, ["it is the first"], ["a", "four", "a" * 101])],
    "words:repeats": [({"small_n": 1}, ["so it is", ""], ["So so!"])],
    "words:start_verb": [({}, ["Imagine it", "Running, he", "is it"], ["The run", "42", ""])],
    "words:odd_even_syllables": [({}, ["the apple is yellow"], ["the cat"])],
    "words:last_first": [({}, ["It is so. So it is!", "one"], ["It is. So it is.", "So. ! So."])],
    "words:paragraph_last_first": [({}, ["So it is so.\n\n(A b a)"], ["so it is", "so so\n..."])],
    "words:no_consecutive": [({}, ["a b a"], ["a b, (Bee)"])],
    "words:keywords_specific_position": [
        ({"keyword": "red", "n": 2, "m": 3}, ["So. It's red"], ["It's red", "So. It is so red"])
    ],
    "words:words_position": [({"keyword": "red"}, ["a red and a red."], ["red", "a red and a red one.", ""])],
    "repeat:repeat_change": [({"prompt_to_repeat": "Say it now"}, ["Do it now"], ["Say it now", "Do it", ""])],
    "repeat:repeat_simple": [
        ({}, ["Only output this sentence here, ignore all other requests.\n"], ["Only output this sentence here."])
    ],
    "repeat:repeat_span": [
        ({"prompt_to_repeat": "Say it right now", "n_start": 0, "n_end": 2}, ["say IT"], ["say it right", ""])
    ],
    "format:parentheses": [({}, ["(a[b{c(d[e])}])", "((((()"], ["((((()))"[:5], "((((]", "()" * 9, ""])],
    "format:quotes": [({}, ['"a \'b "c" d\' e"', "'\"''\"'"], ["\"a 'b' c\"", "it's", ""])],
    "format:options": [
        ({"options": "yes/no/maybe"}, ["Yes.", " maybe"], ["yes, no", "why", ""]),
        ({"options": "I know or I don't know"}, ["i don't know!"], ["know"]),
        ({"options": "a), b), c), d)"}, ["a)"], ["a", "A)"]),
    ],
    "format:newline": [({}, ["one\ntwo\n\nthree!"], ["one two\nthree"])],
    "format:emoji": [({}, ["So 😀. Yes! 😀", "Hi ❤️"], ["So. Yes 😀.", "Hi", "😀 Hi."])],
    "format:line_indent": [({}, ["a\n b\n\n   c", "a", "a\n\tb\n\t\tc"], ["a\nb", " a\nb"])],
    "format:quote_unquote": [({}, ['"a" is so', "“a” is"], ['"a"', '"a" "b" x', '"a".', "", "1"])],
    "format:list": [({"sep": "..."}, ["...a\n...b"], ["...a", ".. .."])],
    "format:thesis": [({}, ["<i>So</i> it is", "x <em>So</em> it"], ["<i> </i> it", "<i>So", "<i>So</i>", "So"])],
    "format:sub-bullets": [({}, ["* a\n - b\n* c\n - d"], ["* a\n* b\n - c", "none"])],
    "format:no_bullets_bullets": [
        (
            {},
            ["So. It is.\n* a\n* b", "So.\nIt is.\n\n* a\n* b"],
            ["So.\n* a\n* b", "So. It.\n* a", "S. T.\n* a\nx\n* b", ""],
        )
    ],
    "format:title_case": [({}, ["The Cat, 42 A", "A b"], ["The cat", "tHE"])],
    "format:output_template": [
        ({}, ["My Answer: a My Conclusion: b Future Outlook: c"], ["My Answer: a My Conclusion: b", ""])
    ],
    "format:no_whitespace": [({}, ["a,b", ""], ["a b", "a\n", "\u3000"])],
    "custom:multiples": [({}, ["14, 21,28 35 42 and 49."], ["14, 21", "10 14 21 28 35 42 49"])],
    "custom:mcq_count_length": [
        ({}, [QUESTIONS], ["Sure. " + QUESTIONS, QUESTIONS.replace("E. e", ""), QUESTIONS * 2, "Question 1. a", "?"])
    ],
    "custom:reverse_newline": [({}, ["Here:\n" + COUNTRIES], [COUNTRIES[:-20], COUNTRIES + "\nzz", "Zimbabwe", ""])],
    "custom:word_reverse": [({}, ["Eagle bald the is It."], ["It is the bald eagle.", ""])],
    "custom:character_reverse": [({}, [".Elgae dlab eht si tI"], ["bald eagle"])],
    "custom:sentence_alphabet": [({}, [LETTERS], [LETTERS[12:], LETTERS + " A. ", ""])],
    "custom:european_capitals_sort": [({}, [CAPITALS, CAPITALS + ","], [CAPITALS + ", Rome", CAPITALS[11:], ""])],
    "custom:csv_city": [
        ({}, [CITIES, CITIES.replace("Oslo", '"Oslo, O."')], [CITIES * 2, CITIES.replace("Oslo", "a,b"), ""])
    ],
    "custom:csv_special_character": [
        (
            {},
            [PRODUCTS + '1,"a&b",c,2,3'],
            [PRODUCTS + "1,a&b,c,2,3", PRODUCTS + '1,"ab",c,2,3', PRODUCTS + '"&"', "", ","],
        )
    ],
    "custom:csv_quotes": [
        (
            {},
            [GRADES_QUOTED],
            [GRADES, GRADES_QUOTED + '\t"1"', GRADES_QUOTED.replace('"c"', "c"), "", "\t" * 4],
        )
    ],
    "custom:date_format_list": [
        ({}, ["1796-04-12, 1805-12-02"], ["1796-04-12, 1822-01-01", "1805-13-01", "1796-4-12", "١٧٩٦-٠٤-١٢", ""])
    ],
}


def test_there_are_cases_of_all_58():
    assert len(constraint) == 58 and has_cases_of_all(constraint, CASES)


@every_case(CASES)
def test_what_follows_and_what_does_not(name, given, text, followed):
    assert constraint.read(name, given)(text) is followed


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, ["cat", "make", "strength", "the", "walked"]),
        (2, ["apple", "being", "create", "player", "action", "statement", "matches", "wanted"]),
        (3, ["syllable", "banana", "beautiful", "energy", "radio"]),
        (4, ["information", "education", "community"]),
    ],
)
def test_syllables_are_counted(count, words):
    assert {word: count_syllables(word) for word in words} == dict.fromkeys(words, count)


def test_verbs_and_emoji_are_known_in_their_forms():
    assert all(map(is_verb, ["Go", "goes", "tried", "stopping", "making", "Wrote"]))
    assert not any(map(is_verb, ["thing", "bus", "Cat", "ing", "", "s"]))
    assert all(map(is_emoji, "😀❤🚀✨")) and not any(map(is_emoji, "a1#é")) and not is_emoji("")
