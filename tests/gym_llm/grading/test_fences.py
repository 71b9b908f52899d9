"""Fenced blocks as models write them: in lists and quotations, with attributes, with tildes, within each other."""

from __future__ import annotations

import pytest

from gym_llm.grading.extraction import fences

CODE = "def f():\n    return 1"


def indented(text: str, before: str) -> str:
    return "\n".join(before + line for line in text.split("\n"))


@pytest.mark.parametrize(
    "info",
    ["python", "Python", " python", 'python title="a.py"', "{.python}", "{.python .numberLines}", "{python}", ".python",
     "python {1,3}", "python:main.py", "python,ignore", "PYTHON  ", "python\r"],
)  # fmt: skip
@pytest.mark.parametrize("mark", ["```", "~~~", "````", "~~~~~"])
def test_the_language_is_the_first_word_whole_and_in_lower_case(mark: str, info: str) -> None:
    assert [(one.language, one.body) for one in fences(f"{mark}{info}\n{CODE}\n{mark}")] == [("python", CODE)]


@pytest.mark.parametrize("info", ["sqlite", "sqlalchemy", "python3", "pythonic", "c++", "c#", "objective-c", "js"])
def test_a_language_is_never_a_prefix(info: str) -> None:
    assert [one.language for one in fences(f"```{info}\nx\n```")] == [info]


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        ("   ", "   "), ("1. ", "   "), ("- ", "  "), ("* ", "    "), ("10) ", "    "), ("\t", "\t"), ("> ", "> "),
        (">", ">"), ("> > ", "> > "), ("> 1. ", ">    "), ("- > ", "  > "), ("1. ", ""), ("   ", "      "),
        ("\ufeff", ""), ("\u200b", ""), ("- Code: ", "  "),
        ("Code: ", ""),
    ],
)  # fmt: skip
def test_a_block_in_a_list_or_a_quotation_loses_its_indentation(first: str, rest: str) -> None:
    extra = "   " if (first, rest) == ("   ", "      ") else ""
    text = f"So:\n\n{first}```python\n{indented(CODE, rest)}\n{rest[:3] if extra else rest}```\nDone."
    assert [one.body for one in fences(text)] == [indented(CODE, extra)]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        (f"```python\n\ufeff{CODE}\n\u200b```", [("python", CODE)]),
        (
            "```python\n'''\n    ```py\n    f()\n    ```\n'''\n```",
            [("python", "'''\n    ```py\n    f()\n    ```\n'''")],
        ),
        ("````md\n```py\nx\n```\n````", [("md", "```py\nx\n```")]),
        ("````py\nx\n```\nNo mark closes it.", [("py", "x")]),
        ("```py\n    x\n    ```\n\n```py\ny\n```", [("py", "    x\n    "), ("py", "y")]),
        ("~~~~~~\n```py\nx\n```\n~~~~~~", [("py", "x")]),
        ("    ~~~~^~~~\n```py\nx\n```", [("py", "x")]),
        ("```py\n~~~\nx\n```", [("py", "~~~\nx")]),
        ("~~~py\n```\nx\n~~~", [("py", "```\nx")]),
        ("```{a: 1}``` or ```7```", [("", "{a: 1}"), ("", "7")]),
        ("```json {}```", [("json", " {}")]),
        ("1. ```py\n   a\n   ```\n2. ```py\n   b\n   ```", [("py", "a"), ("py", "b")]),
    ],
)
def test_which_marks_open_and_close(text: str, blocks: list[tuple[str, str]]) -> None:
    assert [(one.language, one.body) for one in fences(text) if one.closed] == blocks


def test_the_rest_of_the_opening_line_is_kept() -> None:
    assert [(one.info, one.body) for one in fences("```sql SELECT a\nFROM b\n```")] == [("SELECT a", "FROM b")]
