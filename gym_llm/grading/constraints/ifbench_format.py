"""IFBench's constraints of format."""

from __future__ import annotations

import re
import string
from itertools import pairwise

from gym_llm.grading.constraints.constraint import Registry, Text
from gym_llm.grading.constraints.english import is_emoji
from gym_llm.grading.constraints.sentences import sentences
from gym_llm.grading.constraints.words import EDGES, tokens, without_punctuation

constraint = Registry("IFBench")

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_LETTERS_ABC = re.compile(r"\W*a\W*b\W*c", re.IGNORECASE)
_NO_QUOTE = string.digits + string.punctuation.replace('"', "")


@constraint("format:parentheses")
def nested_parentheses(text: str) -> bool:
    """Whether parentheses, brackets and braces are nested at least five deep, and the innermost is closed."""
    depth, open_ = 0, list[str]()
    for character in text:
        if character in _CLOSING:
            open_.append(_CLOSING[character])
            depth = max(depth, len(open_))
        elif character in ")]}":
            if not open_ or open_.pop() != character:
                depth, open_ = 0, list[str]()
            elif depth >= 5:
                return True
    return False


@constraint("format:quotes")
def nested_quotes(text: str) -> bool:
    """Whether quotation marks, double and single in turn, are nested at least three deep, and closed."""
    deepest, open_ = 0, list[str]()
    for character in text:
        if open_ and character == open_[-1]:
            open_.pop()
            if deepest - len(open_) >= 3:
                return True
        elif character in "\"'":
            open_.append(character)
            deepest = max(deepest, len(open_))
    return False


@constraint("format:options")
def one_option(text: str, options: Text) -> bool:
    """Whether the text is one option of those divided by `/`, `or` or commas; `a), b), c)` are kept."""
    divider = next((divider for divider in ("/", "or") if divider in options), ",")
    choices = [option.strip() for option in options.split(divider)]
    if _LETTERS_ABC.match(options):
        return text in choices
    return text.strip(EDGES).lower() in [choice.strip(EDGES).lower() for choice in choices]


@constraint("format:newline")
def word_per_line(text: str) -> bool:
    """Whether each word is in a line of its own."""
    text = without_punctuation(text).strip()
    return sum(line != "" for line in text.split("\n")) == len(text.split())


@constraint("format:emoji")
def emoji_after_sentences(text: str) -> bool:
    """Whether each sentence ends with an emoji, or the next begins with one."""
    said = [without_punctuation(sentence).strip() for sentence in sentences(text)]
    following = [sentence[:1] for sentence in said[1:]] + [""]
    return all(
        sentence and (any(map(is_emoji, sentence[-2:])) or is_emoji(after))
        for sentence, after in zip(said, following, strict=False)
    )


@constraint("format:line_indent")
def stairs(text: str) -> bool:
    """Whether each line is indented further than the one before, empty ones aside."""
    lines = [line for line in text.split("\n") if line.strip()]
    indents = [len(line) - len(line.lstrip()) for line in map(str.expandtabs, lines)]
    return all(first < second for first, second in pairwise(indents))


@constraint("format:quote_unquote")
def quotes_are_explained(text: str) -> bool:
    """Whether something stands between every two quotations, and after the last."""
    text = "".join(text.replace("“", '"').replace("”", '"').replace("'\"'", "").split())
    rest = text.strip(_NO_QUOTE)
    return '""' not in text and rest != "" and rest[-1] != '"'


@constraint("format:list")
def list_with_marker(text: str, sep: Text) -> bool:
    """Whether the marker of list items occurs at least twice."""
    return text.count(sep) >= 2


@constraint("format:thesis")
def italic_thesis(text: str) -> bool:
    """Whether the text has a thesis in italics, `<i>` or `<em>`, and something after it."""
    start = text.find("<i>") if "<i>" in text else text.find("<em>")
    if start < 0:
        return False
    text = text[start:]
    end = text.find("</i>") if "</i>" in text else text.find("</em>")
    return end >= 0 and text[3:end].strip() != "" and text[end + 4 :].strip() != ""


def official_sub_bullets(text: str) -> bool:
    """Accept a text without any list."""
    return all("-" in bullet for bullet in text.split("*")[1:])


@constraint("format:sub-bullets", official=official_sub_bullets)
def sub_bullets(text: str) -> bool:
    """Whether the text has a list, and each bullet point `*` a sub-bullet `-`."""
    has_list = any(line.lstrip().startswith(("*", "-")) for line in text.split("\n"))
    return has_list and official_sub_bullets(text)


@constraint("format:no_bullets_bullets")
def sentences_then_bullets(text: str) -> bool:
    """Whether the text has at least two sentences and then at least two bullet points `*`."""
    count = bullets = 0
    in_sentences = True
    for line in map(str.strip, text.split("\n")):
        if line.startswith("*"):
            if count < 2:
                return False
            in_sentences = False
            bullets += 1
        elif in_sentences:
            found = len(sentences(line))
            in_sentences = found > 0
            count += found
        else:
            return False
    return bullets >= 2


@constraint("format:title_case")
def title_case(text: str) -> bool:
    """Whether no token of two and more letters begins with a small one."""
    return not any(token[0].islower() and (token[1:].islower() or token[1:].isupper()) for token in tokens(text))


@constraint("format:output_template")
def output_template(text: str) -> bool:
    """Whether the text has `My Answer:`, `My Conclusion:` and `Future Outlook:`."""
    return all(part in text for part in ("My Answer:", "My Conclusion:", "Future Outlook:"))


@constraint("format:no_whitespace")
def no_whitespace(text: str) -> bool:
    """Whether the text has no white space."""
    return len(text.split()) <= 1 and text.strip() == text
