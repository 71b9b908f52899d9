"""Check with the verifier's own words: the texts that its code compares with, prints and looks for."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator

from gym_llm.author.attack.attack_play import Turn, says
from gym_llm.author.attack.context import Context, NotApplicable
from gym_llm.core.verifier_env import VerifierEnv

_MOST = 40
_SHORTEST, _LONGEST = 2, 120
_NOT_GRADING = {"oracle", "near_misses"}
_WAYS = ("{}", "print {}", "print({!r})", "echo {}")


def check_own_words(context: Context) -> None:
    """Say, and print, each text that the verifier's methods are made of: none of them may decide the verdict."""
    words = list(dict.fromkeys(own_words(type(context.player.env))))[:_MOST]
    known = [(index, gold) for index, gold in context.known() if gold.floor >= 0.0 or gold.kind == "whole"][:3]
    if not words or len(known) < 2:
        raise NotApplicable("its methods have no texts" if known else "no right answers are known")
    for word in words:
        for way in _WAYS:
            paid: list[tuple[int, list[Turn]]] = []
            for index, gold in known:
                text = way.format(word)
                turns = says(text)
                if text in json.dumps(gold.turns, ensure_ascii=False):
                    break
                played = context.play(index, turns)
                if context.pays(index, played) != "high":
                    break  # what is right on some tasks may be their answer
                paid.append((index, turns))
            if len(paid) == len(known):
                index, turns = paid[0]
                context.find(
                    "own words", way.format(word)[:60], "high", index, turns, context.less(index), "it is paid"
                )


def own_words(env_class: type[VerifierEnv]) -> Iterator[str]:
    """The texts in the methods of a verifier's own classes, those that are put together with 0 and 1 in their gaps."""
    for each in env_class.__mro__:
        if each is VerifierEnv or not issubclass(each, VerifierEnv):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        except (OSError, TypeError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in _NOT_GRADING:
                yield from _texts(node)


def _texts(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    documented = ast.get_docstring(function, clean=False)
    for node in ast.walk(function):
        if isinstance(node, ast.JoinedStr):
            rendered = [""]
            for part in node.values:
                rendered = [text + piece for text in rendered for piece in _pieces(part)][:8]
            yield from (text for text in rendered if _SHORTEST <= len(text) <= _LONGEST)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != documented:
            yield from [node.value] if _SHORTEST <= len(node.value) <= _LONGEST else []


def _pieces(part: ast.expr) -> list[str]:
    if isinstance(part, ast.Constant):
        return [str(part.value)]
    texts = [node.value for node in ast.walk(part) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return texts[:3] or ["0", "1"]
