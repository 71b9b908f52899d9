"""Reading rows and answers, and the comparisons that need no chemistry.

The rules are those of FutureHouse's package ether0 (`rewards.py`, `model_prompts.py`) and of NeMo Gym's server.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from gym_llm.grading.answers import last_boxed
from gym_llm.grading.choices import ANY_LETTER, line_choice
from gym_llm.grading.denials import is_given

REMOTE = {
    "sol_eval": "a model of solubility",
    "rxn_forward": "a model of reactions and a list of what can be bought",
}
"""Reward functions that ask FutureHouse's remote server, and for what."""

MOLECULAR = frozenset(
    {"valid_mol_eval", "caption_eval", "product_eval", "formula_eval", "functional_group_eval", "should_answer_eval"}
)
"""Reward functions that need rdkit."""

_NEMO_LETTER = re.compile(r"Answer\s{0,99}:\s{0,99}([A-Za-z])\s{0,99}$", re.MULTILINE)
_SUPERSCRIPT = re.compile(r"\^\{([\d,]+)\}")
_ITALIC = re.compile(r"\{([a-zA-Z])\}")
_BRACKETED = re.compile(r"([-\d])[(\[{]([A-Za-z0-9]+)[\])}]-")
_IGNORED = str.maketrans({"$": None, "~": None, "^": None, " ": "-"})


class Solution(NamedTuple):
    """A row's `solution`: the name of a reward function, its argument, and the kind of the problem."""

    function: str
    argument: str
    problem_type: str


def solution_from(text: str) -> Solution:
    """Return the three parts of a `solution`.

    Raises:
        ValueError: If it is not three parts with `!:!` between them, or its function is unknown or needs a server.

    >>> solution_from("str_eval!:!CCO!:!property-regression-ld50").argument
    'CCO'
    """
    parts = text.split("!:!", maxsplit=2)
    if len(parts) != 3:
        raise ValueError(f"a solution is FUNCTION!:!ARGUMENT!:!PROBLEM_TYPE, got {text[:80]!r}")
    solution = Solution(*parts)
    if solution.function in REMOTE:
        asks = REMOTE[solution.function]
        raise ValueError(f"{solution.function} asks FutureHouse's server for {asks}: drop these rows")
    if solution.function not in BY_TEXT and solution.function not in MOLECULAR:
        raise ValueError(f"unknown reward function {solution.function!r}; known: {', '.join([*BY_TEXT, *MOLECULAR])}")
    if solution.function == "functional_group_eval":
        formula_and_groups(solution.argument)
    return solution


def formula_and_groups(argument: str) -> tuple[str, frozenset[str]]:
    """Return the formula and the functional groups, in lower case, of `functional_group_eval`'s argument.

    Raises:
        ValueError: If it is not a pair of a formula and a list of names.

    >>> formula_and_groups("('C2H6O', ['Alcohol'])")
    ('C2H6O', frozenset({'alcohol'}))
    """
    try:
        formula, groups = ast.literal_eval(argument)
        if isinstance(formula, str) and isinstance(groups, list):
            return formula, frozenset(group.lower() for group in groups)
    except (ValueError, TypeError, SyntaxError, AttributeError, MemoryError, RecursionError):
        pass
    raise ValueError(f"functional_group_eval takes \"('FORMULA', ['GROUP', ...])\", got {argument[:80]!r}")


def answer_in(text: str) -> str | None:
    r"""Return the answer: the last `<answer>`, else the last box, else the letter of the last line `Answer: X`.

    ether0's own marks, `<|answer_start|>` and `<|answer_end|>`, count as `<answer>`.

    >>> answer_in("<answer>C</answer> <answer> CCO </answer>"), answer_in(r"\boxed{C}"), answer_in("**Answer: (b)**")
    ('CCO', 'C', 'B')
    """
    text = text.replace("<|answer_start|>", "<answer>").replace("<|answer_end|>", "</answer>")
    if tagged := _last_tagged(text):
        return tagged
    boxed = last_boxed(text)
    if boxed is not None:
        return boxed.strip() or None
    return None if "<answer>" in text else line_choice(text, ANY_LETTER, brief=True)


def nemo_answer_in(text: str) -> str | None:
    """Return `answer_in` of a text whose every tag, box and last letter of a line counts, as in NeMo Gym."""
    text = text.replace("<|answer_start|>", "<answer>").replace("<|answer_end|>", "</answer>")
    found = _last_tagged(text, conform=True) or last_boxed(text, mentions=True)
    if found is None:
        found = next(iter(_NEMO_LETTER.findall(text)[::-1]), None)
    return (found or "").strip() or None


def _last_tagged(text: str, *, conform: bool = False) -> str:
    """Return the content of the last pair of tags, in linear time; "" if there is none, or it holds another tag."""
    content, position = "", 0
    while (start := text.find("<answer>", position)) >= 0:
        start += len("<answer>")
        while start < len(text) and text[start].isspace():
            start += 1
        end = text.find("</answer>", start + 1)  # the content has a character, if only the closing tag's first
        if end < 0:
            break
        position = end + len("</answer>")
        if conform or is_given(text, text.rfind("<answer>", 0, start), position):
            content = text[start:end].rstrip()
    return "" if "<answer>" in content else content


def normal_name(text: str) -> str:
    """Return a name without case, LaTeX's marks and needless brackets; spaces become hyphens.

    >>> normal_name("2-[Methyl]-1H Pyrrole^{2}")
    '2-methyl-1h-pyrrole(2)'
    """
    text = _SUPERSCRIPT.sub(r"^(\1)", text.strip().casefold())
    text = _ITALIC.sub(r"\1", text).replace("$", "").replace("~", "")
    return _BRACKETED.sub(r"\1\2-", text).translate(_IGNORED)


def _without_punctuation(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    return "".join(letter for letter in text if letter != "-" and unicodedata.category(letter) not in {"Pd", "Po"})


def same_string(answer: str, expected: str) -> bool:
    """Return True if two strings are the same name; SMILES are compared as strings, too."""
    return normal_name(answer) == normal_name(expected)


def same_reaction(answer: str, expected: str) -> bool:
    """Return True if two names of reactions are the same, also without their punctuation and dashes."""
    one, other = normal_name(answer), normal_name(expected)
    return one == other or _without_punctuation(one) == _without_punctuation(other)


BY_TEXT: dict[str, Callable[[str, str], bool]] = {
    "str_eval": same_string,
    "rxn_eval": same_reaction,
    "should_not_answer_eval": same_string,
}
"""Reward functions that compare strings."""
