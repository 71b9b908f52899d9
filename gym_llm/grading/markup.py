r"""Text without the fonts of LaTeX and the emphasis of Markdown, in which models write their answers."""

from __future__ import annotations

import re

_FONT = (
    r"\\(?:boxed|fbox|[mh]box|text(?:bf|it|rm|sf|tt|sc|up|md|normal)?|math(?:bf|rm|it|sf|tt|bb|cal|frak|scr|normal)"
    r"|boldsymbol|bm|emph|underline|operatorname\*?|url|textcolor\s*\{[^{}]{0,40}\})\s*\{"
)
_BRACES = re.compile(rf"{_FONT}|\\.|[{{}}]", re.DOTALL)
_SPACING = re.compile(
    r"\\(?:left|right|[bB]igg?[lr]?|(?:display|text)style|q?quad|bf|rm|it|bfseries|itshape|[hH]uge|[lL]arge"
    r"|LARGE|small|text(?:bf|it|rm)?|math(?:bf|rm|it|sf|cal))(?![A-Za-z{])|\\color\s*\{[^{}]{0,40}\}"
    r"|\\checkmark(?![a-z])|\\[,;:! ()\[\]{}]|\\$|\$|(?<=[\w}.])~"
)
# A mark that opens before a word and closes behind one, or beside Chinese. The bound keeps thousands of marks cheap.
_EMPHASIS = re.compile(
    r"(?<![*\\])(?<![^\W\u3040-\ud7af])(\*{1,3}|_{1,3}|`{1,3})(?=[^\s*_`])([^*`\n]{0,300}?[^\s*`\n])\1(?!\*|[^\W\u3040-\ud7af])"
)
_COMMAND = re.compile(r"\\[A-Za-z]+$")
_LONGEST_COMMAND = 20
_MOST_NESTED = 3


def without_fonts(latex: str) -> str:
    r"""Return a text without `\text{}`, `\mathbf{}`, `\boxed{}` and the like around parts of it; other braces stay.

    >>> without_fonts(r"\textbf{New \emph{Delhi}} \frac{1}{2}"), without_fonts(r"\text{a")
    ('New Delhi \\frac{1}{2}', '\\text{a')
    """
    if "{" not in latex or "\\" not in latex:
        return latex
    dropped: list[tuple[int, int]] = []
    opened: list[tuple[int, int] | None] = []
    for match in _BRACES.finditer(latex):
        brace = match[0]
        if brace == "}":
            if opened and (font := opened.pop()) is not None:
                dropped += [font, match.span()]
        elif brace[-1] == "{" and brace != "\\{":
            opened.append(match.span() if len(brace) > 1 else None)
    kept, position = [], 0
    for start, end in sorted(dropped):
        kept.append(latex[position:start])
        if latex[start] == "\\" and _COMMAND.search(latex, max(0, start - _LONGEST_COMMAND), start):
            kept.append(" ")  # else `\cdot\text{x}` would become `\cdotx`
        position = end
    return "".join(kept) + latex[position:]


def without_emphasis(text: str) -> str:
    """Return a text without the Markdown marks around words of it; `2*3*4` and `a_b` stay.

    >>> without_emphasis("**(B)** `green`"), without_emphasis("2*3*4 a_b_c")
    ('(B) green', '2*3*4 a_b_c')
    """
    for _ in range(_MOST_NESTED):
        if "*" not in text and "_" not in text and "`" not in text:
            break
        text, replaced = _EMPHASIS.subn(r"\2", text)
        if not replaced:
            break
    return text


def without_markup(text: str) -> str:
    r"""Return a text without fonts, sized brackets, marks of mathematics and emphasis, with single spaces.

    >>> without_markup(r"\left(\textbf{C}\right)"), without_markup("$x$ is **5**")
    ('(C )', 'x is 5')
    """
    text = without_fonts(text)
    if "\\" in text or "$" in text or "~" in text:
        text = _SPACING.sub(" ", text)
    return " ".join(without_emphasis(text).split())
