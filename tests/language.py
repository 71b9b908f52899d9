"""A lint of our English: Markdown prose, public docstrings, the command line's help and error messages.

Run `python tests/language.py [PATH...]`, or add `--counts` for the number of findings in each room.
Quoted text, code spans and code blocks are skipped, so model output and test data stay as they were.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("gym_llm", "envs", "wrappers", "vector", "data")
SENTENCE_WORDS = 25
MESSAGE_CHARACTERS = 120
PLACEHOLDER = "x" * 10  # the length that a value in an f-string counts with

_LINKING = "and|or|on|in|is|are|was|that|which|with|by|to|for|at|from"
PHRASES = {
    r"(?:is|are|was|were) (?-i:none)": "say invalid, missing or not a ...",
    r"(?<!there )(?:is|are) no (?!such|longer|more|less|fewer|better|worse|greater|larger)[a-z]+": "say 'is not a ...'",
    r"nobody|somebody|who(?:m)?ever|by whom ever": "name the actor",
    r"what (?:came|comes|became|becomes|has become) of": "say result or outcome",
    r"hand(?:s|ed|ing)? over": "say return, deliver or send",
    r"for good(?! \w)": "say permanently",
    r"so many": "say n or the number",
    r"(?:tells?|told|telling)(?! (?:\w+ )?apart)": "say write, send, log or state",
    r"befell|befalls?": "say happened to",
    r"as it is(?=[.,;:)]|$)": "say unchanged",
    rf"of (?:(?:an?|the|this|that) )?[\w.]+['\u2019]s(?=[,.;:)]| (?:{_LINKING})\b|$)": "drop the second genitive",
}
_PHRASES = [(re.compile(rf"\b(?:{phrase})(?!\w)", re.IGNORECASE), advice) for phrase, advice in PHRASES.items()]
FIRST_WORDS = re.compile(r"(?:What|Who|Whose|How|Where|Whether|It|One|As|Of|The same)\b")

_FENCE = re.compile(r"^([ \t]*)(```+|~~~+).*?^[ \t]*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_GENERATED = re.compile(r"<!-- verifiers.*?<!-- end of verifiers -->", re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_QUOTED = re.compile('"[^"\n]*"|\u201c[^\u201d]*\u201d')
_TARGET = re.compile(r"\]\([^)\s]*\)|https?://\S+")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|et al)\.")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"']*\s+(?=[^a-z])")
_SECTION = re.compile(r"^(?:Args|Arguments|Attributes|Returns|Yields|Raises|Example|Examples|Note|Notes):$")
_ITEM = re.compile(r"^(?:[-*+] |\d+\. |\|)")
_ENTRY = re.compile(r"^(\*{0,2}[\w.]+)(?: \([^)]*\))?: ")


class Finding(NamedTuple):
    """A line that breaks a rule."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


class _Text(NamedTuple):
    """Prose and its first line's number in the file."""

    line: int
    text: str


def check(path: Path) -> list[Finding]:
    """Return the findings of one file."""
    name = path.resolve().relative_to(ROOT).as_posix() if path.resolve().is_relative_to(ROOT) else path.as_posix()
    text = path.read_text("utf-8", errors="replace")
    if path.suffix == ".py":
        return sorted(set(_python(name, text)))
    if path.suffix in (".yml", ".yaml"):
        text = "\n".join(line.partition("#")[2] for line in text.splitlines())
    return sorted(set(_markdown(name, text)))


def files(*roots: Path) -> Iterator[Path]:
    """Yield the files that are checked below the roots, without following links between our folders."""
    for root in roots or (ROOT,):
        if root.is_file():
            yield root
            continue
        for place, folders, names in os.walk(root.resolve()):
            folder = Path(place)
            folders[:] = sorted(name for name in folders if not _skipped(folder / name))
            yield from (folder / name for name in sorted(names) if _is_ours(folder / name))


def _skipped(folder: Path) -> bool:
    hidden = folder.name.startswith(".") and folder.name != ".github"
    if folder.name == "tasks" and folder.parent.name == "data":  # a verifier's tasks: programs to be repaired
        return True
    return hidden or folder.is_symlink() or folder.name in ("__pycache__", "site", "runs", "prompts", "build", "dist")


def _is_ours(path: Path) -> bool:
    parts = path.resolve().relative_to(ROOT).parts
    if path.suffix == ".md":
        in_data = (parts[0] in SOURCES and "data" in parts[1:]) or (parts[0] == "tests" and len(parts) > 2)
        return path.name not in ("CARD.md", "LICENSE.md") and not in_data
    if path.suffix == ".py":
        return parts[0] in (*SOURCES, "examples", "benchmarks")
    return parts == ("mkdocs.yml",)


def room(path: str) -> str:
    """Return the room of a file: a package's folder, a documentation page, or a folder of the repository."""
    parts = path.split("/")
    if parts[0] == "gym_llm":
        return "/".join(parts[:2]) if len(parts) > 2 else "gym_llm"
    return path if parts[0] == "docs" else parts[0]


def _markdown(path: str, text: str) -> Iterator[Finding]:
    for hidden in (_GENERATED, _FENCE, _COMMENT):
        text = hidden.sub(lambda found: "\n" * found[0].count("\n"), text)
    for block in _blocks(text.splitlines(), 1):
        yield from _phrases(path, block)


def _python(path: str, source: str) -> Iterator[Finding]:
    tree = ast.parse(source)
    public = not any(part.startswith("_") and part != "__init__.py" for part in path.split("/"))
    if public:
        yield from _docstrings(path, tree, is_public=path.startswith(SOURCES))
    in_package = path.startswith(SOURCES)
    for node in ast.walk(tree):
        if in_package and isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            message = _literal(node.exc.args[0])
            if message:
                yield from _phrases(path, _Text(node.lineno, message))
                if len(message) > MESSAGE_CHARACTERS:
                    yield Finding(path, node.lineno, f"message of {len(message)} characters", message[:100])
        elif path.startswith("gym_llm/cli") and isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "help" and (help_text := _literal(keyword.value)):
                    yield from _phrases(path, _Text(keyword.value.lineno, help_text))


_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _docstrings(path: str, node: _Documented, *, is_public: bool) -> Iterator[Finding]:
    text = ast.get_docstring(node, clean=True)
    if text:
        line = node.body[0].lineno
        returns_bool = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
            isinstance(node.returns, ast.Name) and node.returns.id in ("bool", "TypeIs", "TypeGuard")
        )
        first = FIRST_WORDS.match(text)
        if first and not (first[0] == "Whether" and returns_bool):
            yield Finding(path, line, "first word", text.splitlines()[0])
        for block in _blocks(_without_examples(text), line):
            yield from _phrases(path, block)
            for sentence in _sentences(block.text):
                words = len([word for word in sentence.split() if re.search(r"\w", word)])
                if words > SENTENCE_WORDS:
                    yield Finding(path, block.line, f"sentence of {words} words", sentence[:100])
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not is_public:
        return
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            yield from _docstrings(path, child, is_public=is_public)


def _without_examples(text: str) -> list[str]:
    """Return a docstring's lines with its examples and code blocks blank."""
    lines = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text).splitlines()
    is_example = False
    for number, line in enumerate(lines):
        is_example = line.strip().startswith((">>>", "python ", "gym-llm ")) or (is_example and bool(line.strip()))
        if is_example:
            lines[number] = ""
    return lines


def _blocks(lines: Iterable[str], first: int) -> Iterator[_Text]:
    """Yield paragraphs, list items, table rows and entries of a docstring's sections."""
    block: list[str] = []
    start = indent = first
    entries = -1  # the indent of a section's entries, once its heading was read
    for number, line in enumerate(lines, first):
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        is_heading = bool(_SECTION.match(stripped))
        is_entry = entries >= 0 and indent == entries and bool(_ENTRY.match(stripped))
        if not stripped or is_heading or is_entry or _ITEM.match(stripped) or stripped.startswith("#"):
            if block:
                yield _Text(start, " ".join(block))
            block = []
        if is_heading:
            entries = indent + 4
        elif stripped:
            start = start if block else number
            block.append(_ENTRY.sub("", stripped) if is_entry else _ITEM.sub("", stripped))
    if block:
        yield _Text(start, " ".join(block))


def _plain(text: str) -> str:
    """Return the text with code spans, links' targets and quotations as one word each."""
    text = _TARGET.sub("]", _CODE.sub("CODE", text))
    return _ABBREVIATION.sub(r"\1", _QUOTED.sub("QUOTE", text))


def _sentences(text: str) -> list[str]:
    return _SENTENCE_END.split(_plain(text))


def _phrases(path: str, block: _Text) -> Iterator[Finding]:
    plain = _plain(block.text)
    for pattern, advice in _PHRASES:
        for found in pattern.finditer(plain):
            around = plain[max(found.start() - 30, 0) : found.end() + 30]
            yield Finding(path, block.line, f"'{found[0]}' ({advice})", around)
    for sentence in _sentences(block.text):
        if sentence.count(";") > 1:
            yield Finding(path, block.line, "chain of semicolons", sentence[:100])


def _literal(node: ast.AST) -> str:
    """Return the text of a string expression, with a placeholder for each value in it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(value) or PLACEHOLDER for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = (_literal(node.left), _literal(node.right))
        return "".join(part or PLACEHOLDER for part in parts) if any(parts) else ""
    return ""


def main() -> int:
    """Print the findings, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description="Check our English.")
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders (default: the repository)")
    parser.add_argument("--counts", action="store_true", help="print the number of findings in each room")
    options = parser.parse_args()
    findings = [finding for path in files(*options.paths) for finding in check(path)]
    print(*findings, sep="\n")
    if options.counts:
        for name, count in Counter(room(finding.path) for finding in findings).most_common():
            print(f"{count:6} {name}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
