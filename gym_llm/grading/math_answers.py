r"""Finding and reading the answer to a question of mathematics, before any algebra.

An answer is read whole or not at all. LaTeX with unknown commands or unbalanced groups is unreadable, and prose equals
only the same prose. Everything here is plain Python, and its time is bounded. `envs/math_verify/grading.py` does the
algebra, in worker processes.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fractions import Fraction

from gym_llm.grading.answers import boxed_answer, is_mention, last_box, strip_delimiters
from gym_llm.grading.denials import is_denied
from gym_llm.grading.markup import without_emphasis
from gym_llm.grading.quantities import DECORATION, NUMBER_WORDS, Quantity, plain_symbols, read_quantity, read_unit
from gym_llm.grading.units import have_same_unit

_LONGEST = 2_000
_SHORT = 200
_NEAR = 200

_LETTERS = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi varpi rho varrho "
    "sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega "
    "ell hbar imath"
)
_FUNCTIONS = (
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth arcsinh arccosh arctanh log ln lg exp lim max "
    "min sup inf gcd lcm det dim ker deg arg Re Im mod"
)
_COMMANDS = frozenset(
    f"{_LETTERS} {_FUNCTIONS} "
    "frac dfrac tfrac cfrac sqrt cdot times div pm mp le leq leqslant ge geq geqslant lt gt ne neq approx equiv infty "
    "sum prod int iint oint binom dbinom tbinom choose in notin ni cup cap setminus subset subseteq supset supseteq "
    "emptyset varnothing mathbb mathcal mathbf mathrm mathit mathsf mathfrak boldsymbol bm text textbf textit textrm "
    "textnormal textsf mbox operatorname left right big Big bigg Bigg bigl bigr Bigl Bigr lfloor rfloor lceil rceil "
    "lvert rvert lVert rVert vert Vert mid langle rangle overline bar hat widehat vec dot ddot tilde prime circ "
    "degree angle triangle begin end ldots cdots dots vdots ddots quad qquad displaystyle textstyle limits nolimits "
    "to rightarrow Rightarrow longrightarrow leftarrow leftrightarrow Leftrightarrow implies iff mapsto land lor "
    "wedge vee neg lnot forall exists bmod pmod partial nabla because therefore underline overset underset sim simeq "
    "cong propto perp parallel star ast bullet oplus otimes colon rm bf it lbrace rbrace lbrack rbrack backslash "
    "hline substack overrightarrow bigcup bigcap space thinspace euro pounds S aleph complement stackrel "
    "smallsetminus not mathop".split()
)
_SPACELESS = re.compile(
    r"\\(sin|cos|tan|cot|sec|csc|ln|log|pi|theta|alpha|beta|cdot|times|le|ge|ne|in)([a-zA-Z])(?![a-zA-Z])"
)
_COMMAND = re.compile(r"\\([a-zA-Z]+)")
_SYMBOLS = {
    "√": r"\sqrt ", "∞": r"\infty ", "×": r"\times ", "÷": r"\div ", "·": r"\cdot ", "⋅": r"\cdot ", "±": r"\pm ",
    "∓": r"\mp ", "π": r"\pi ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "λ": r"\lambda ",
    "μ": r"\mu ", "ω": r"\omega ", "φ": r"\phi ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ",
    "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}",
    "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "°": r"^{\circ}", "′": "'", "“": '"', "”": '"', "（": "(", "）": ")",
    "、": ",", "；": ";", "＝": "=", "∑": r"\sum ", "∫": r"\int ", "…": r"\ldots ", "→": r"\to ",
}  # fmt: skip
_INDICES = {ord(index): str(digit) for digit, index in enumerate("₀₁₂₃₄₅₆₇₈₉")}
_INDEX = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_ROOT = re.compile(r"([√∛∜])\s*(?:\(([^()]*)\)|(\d+|[a-zA-Z]))")
_ROOTS = {"√": "", "∛": "[3]", "∜": "[4]"}
_PLAIN_ROOT = re.compile(r"(?<![a-zA-Z\\])\\?sqrt\s*\(([^()]*)\)")
_LAYOUT = re.compile(
    r"(?<!\\)\\[!,;:> ]|(?<!\\)~|\\(?:left|right|displaystyle|textstyle|limits|nolimits|q?quad)(?![a-zA-Z])"
    r"|\\[bB]igg?[lr]?(?![a-zA-Z])|\\phantom\{[^{}]*\}|[\u200b-\u200f\u2060\ufeff]|" + DECORATION
)
_SPACES = ("\\ ", "~", "\\,", "\\;", "\\:")
_SAME = {"**": "^", ",\\!": "", "\\varnothing": "\\emptyset", "\\langle": "(", "\\rangle": ")"}
_UNDERLINED = re.compile(r"\\underline\s*\{([^{}]*)\}")
_PLAIN_FONT = re.compile(
    r"\\(?:mathrm|mathbf|mathit|mathsf|boldsymbol|bm|operatorname|mathop)\s*\{\s*([a-zA-Z]|[\d.,]+)\s*\}"
)
_TEXT = re.compile(r"\\(?:text(?:bf|it|rm|sf|normal)?|mathrm|mathbf|mathit|mathsf|mbox|operatorname)\s*\*?\{([^{}]*)\}")
_NAMED = re.compile(rf"\\(?:operatorname|mathrm|text)\s*\{{\s*({'|'.join(_FUNCTIONS.split())})\s*\}}")
_JOINED = re.compile(
    r",?\s*(?:\\(?:text|mathrm|mbox)\s*\{\s*,?\s*(?:and|or)\s*,?\s*\}|(?<![a-zA-Z\\])(?:and|or)(?![a-zA-Z]))\s*"
)
_FUNCTION = re.compile(rf"(?<![\\a-zA-Z])({'|'.join(_FUNCTIONS.split())}|pi|sqrt|infinity|infty)(?![a-zA-Z])")
_PRODUCT = re.compile(r"[abc]{3,4}|[def]{3}|[xyz]{3}|[pqrs]{3,4}|[mnk]{3}|abcd|[uvw]{3}|[rst]{3}")
_RUN = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{3,}")
_BASE = re.compile(
    r"([\dA-F]+|\([\dA-F]+\))_\{?(?:\\text\{)?(\d+|two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen)\}*$"
)
ANGLE = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])[^=,]*\\circ")
"""A function of degrees."""
_DERIVATIVE = re.compile(
    r"\\frac\s*\{\s*(?:d|\\partial)\s*([a-zA-Z])\s*\}\s*\{\s*(?:d|\\partial)\s*([a-zA-Z])\s*\}|([a-zA-Z)])('+)"
)
_PRIMED_INDEX = re.compile(r"_\{?([a-zA-Z0-9]+)\}?('+)")
_TRANSPOSED = re.compile(r"(?<=[A-Z)])\^\s*\{?T\}?(?![a-zA-Z])")
_PRIMES = re.compile(r"\^\s*(?:\{\s*(?:\\prime\s*)+\}|\\prime(?![a-z]))")
_TRAILING = re.compile(
    r"(?:\\(?:text|mathrm|mbox)\s*\{[^{}]*\}(?:\s*\^\s*\{?[23]\}?)?|(?<=[\d)}\]!])\s*[a-zA-Z][a-zA-Z /.]*|\\?%"
    r"|\^\s*\{?\s*\\circ\s*\}?)\s*$"
)
_LABEL = re.compile(
    r"\s*(?:\\(?:text(?:bf)?|math(?:rm|bf))\s*\{\s*[A-Z][A-Za-z ]{1,40}(?::\s*\}|\s*\}\s*[:=])"
    r"|[A-Z][a-z]{2,20}\s*[:=])\s*(?=\S)"
)
_FORMS = tuple(
    (re.compile(pattern), form)
    for pattern, form in (
        (r"\\\{\s*[a-z]\s*(?:\\in\s*\\mathbb\{R\}\s*)?(?::|\||\\mid(?![a-z]))\s*(.*[<>=].*|.*\\[lg]eq?.*)\\\}", r"\1"),
        (r"([^=<>]*\d[^=<>]*?)\s*=\s*([a-zA-Z])", r"\2=\1"),
        (r"(\d+)\s*(?:\\text\s*\{\s*to\s*\}|to)\s*(\d+)", r"\1:\2"),
        (r"(\d+):(\d+):(\d+)", r"(\\frac{\2}{\1},\\frac{\3}{\1})"),
        (r"\]([^][()]*,[^][()]*)\[", r"(\1)"),
        (r"\]([^][()]*,[^][()]*)\]", r"(\1]"),
        (r"\[([^][()]*,[^][()]*)\[", r"[\1)"),
        (r"(?i:there (?:is|are) )?(?i:no (?:real )?solutions?|(?:the )?empty set)", r"\\emptyset"),
        (r"(?i:all real(?: number)?s)", r"\\mathbb{R}"),
    )
)
"""Other spellings of a whole answer, and the usual one."""
_MODULUS = re.compile(r"\(?\\?[pb]?mod\{?(\d+)\}?\)?")
_HALF_OF_DAY = re.compile(r"(?<=\d)([ap])\.?m\.?\Z", re.IGNORECASE)
_DOUBLED = re.compile(r"\\\\(?=[a-zA-Z%{}])")
_BARE_FRACTION = re.compile(r"\\[dt]?frac\s*(\{[^{}]*\}|\\pi|[a-zA-Z0-9])\s*(\{[^{}]*\}|\\pi|[a-zA-Z0-9])")
_DANGLING = re.compile(r"[-+*/=^_<>,]\s*$")
_EMPTY_GROUPS = re.compile(r"[\s.,;:$?!*_(){}\[\]|\\&^~'\"`=<>/+-]*")


_SENTENCE = re.compile(r"(?:(?:Mrs?|Ms|Dr)\. )?[A-Z][A-Za-z,' ]+ [$€£]?\d[\d,]*(?:\.\d+)?%?(?: [A-Za-z,' ]+)?")
_ONE_NUMBER, _ONE_WORD = re.compile(r"[$€£]?\d[\d,.]*%?"), re.compile(r"[A-Za-z]{2,}")
_CHANGES_IT = re.compile(
    r"\b(?:if|not|no|or|nor|never|cannot|\w+n't|unless|when|except|between|at least|at most|than|either|may|maybe|"
    r"might|could|would|should have|minus|negative|half|twice|double|triple|times|squared|cubed|plus|thousand|million|"
    r"zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|both|pair|couple|"
    r"hundred|dozen|billion|percent|th|incorrect|wrong|unknown|instead|originally|"
    r"step|lemma|theorem|equation|figure|chapter|section|page|problem|exceeds?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class MathAnswer:
    """An answer that was read whole.

    Attributes:
        key: The text without layout: two answers of the same key are equal.
        quantity: The number and unit, if that is all.
        latex: LaTeX for algebra, without unit, or None for words.
        unit: The unit behind the LaTeX, "" without one.
        scale: The factor of the unit, such as 1/100 for a percentage.
    """

    key: str
    quantity: Quantity | None = None
    latex: str | None = None
    unit: str = ""
    scale: Fraction = Fraction(1)


def read_answer(content: str) -> MathAnswer | None:
    r"""Read what is in a box, or an expected answer; None if it cannot be read whole.

    >>> read_answer(r"\dfrac{3}{4}\text{ cm}").quantity.value, read_answer(r"3\sqrt{2}\,\mathrm{m/s}").unit
    (Fraction(3, 4), 'm/s')
    >>> read_answer(r"\text{Evelyn}.").key, read_answer("?"), read_answer(r"\frac{1}{\foo}")
    ('evelyn', None, None)
    """
    # The answers to one task repeat.
    return None if len(content) > _LONGEST else (_read_short if len(content) <= _SHORT else _read)(content)


def _read(content: str) -> MathAnswer | None:
    content = _LABEL.sub("", content, count=1) if _LABEL.match(content) else content
    quantity = read_quantity(content) or _stated_in_a_sentence(content)
    if quantity is not None:
        return MathAnswer(key=_key(content), quantity=quantity, unit=quantity.unit, scale=quantity.scale)
    if is_mention(content):
        return None
    latex = _cleaned(content)
    if not latex or not _is_whole(latex):
        return None
    unit, scale = "", Fraction(1)
    if match := _BASE.fullmatch(latex):
        latex, unit = match[1], f"base {NUMBER_WORDS.get(match[2], match[2])}"
    elif ANGLE.search(latex):
        pass  # of cos 60°, no unit
    elif (match := _TRAILING.search(latex)) and match.start() and (found := read_unit(_TEXT.sub(r" \1 ", match[0]))):
        latex, (unit, scale) = latex[: match.start()].rstrip().replace(f"{match[0].rstrip()},", ","), found
    latex = _FUNCTION.sub(lambda match: "\\infty" if match[1].startswith("infi") else f"\\{match[1]} ", latex)
    return MathAnswer(_key(content), None, latex if _is_mathematics(latex) else None, unit, Fraction(scale))


_read_short = functools.lru_cache(maxsize=10_000)(_read)


def _stated_in_a_sentence(content: str) -> Quantity | None:
    """The quantity of "Jenny eats 9 cookies.": a sentence with one number, and no word that could change it."""
    sentence = _TEXT.sub(r"\1", content).replace("\\$", "$").strip().removesuffix(".")
    if len(sentence) > _NEAR or not _SENTENCE.fullmatch(sentence) or _CHANGES_IT.search(sentence):
        return None
    number = _ONE_NUMBER.search(sentence)
    return None if number is None or len(_ONE_WORD.findall(sentence)) < 3 else read_quantity(number[0])


def _cleaned(content: str) -> str:
    """LaTeX without typography, layout, delimiters around it and a full stop."""
    text = _without_typography(content)
    for _ in range(4):
        quotes = "\"'`" if text.startswith("'") else '"`'  # x' has a prime
        stripped = strip_delimiters(text.strip().strip(quotes).rstrip(".,;:").strip())
        if (match := _TEXT.fullmatch(stripped)) is not None:
            stripped = match[1]
        if stripped == text:
            break
        text = stripped
    text = _JOINED.sub(", ", text) if not _RUN.search(_JOINED.sub("", _TEXT.sub("", _COMMAND.sub("", text)))) else text
    for pattern, form in _FORMS:
        if (match := pattern.fullmatch(text)) is not None:
            text = match.expand(form)
            break
    text = _PLAIN_FONT.sub(r"\1", text.replace("\\$", "").replace("$", ""))
    text = _TRANSPOSED.sub("_{t}", text)
    text = _PRIMED_INDEX.sub(lambda prime: f"_{{{prime[1]}{'p' * len(prime[2])}}}", text)
    return _NAMED.sub(r"\\\1 ", _DERIVATIVE.sub(lambda d: f"{d[1] or d[3]}_{{{d[2] or 'p' * len(d[4])}}}", text))


def _without_typography(text: str) -> str:
    if not text.isascii():
        text = _ROOT.sub(lambda match: f"\\sqrt{_ROOTS[match[1]]}{{{match[2] or match[3]}}}", text)
        text = _INDEX.sub(lambda match: f"_{{{match[0].translate(_INDICES)}}}", text)
        text = plain_symbols("".join(_SYMBOLS.get(character, character) for character in text))
    if "\\begin" not in text:
        text = _DOUBLED.sub(r"\\", text)
    for spelling, usual in _SAME.items():
        text = text.replace(spelling, usual)
    text = _PRIMES.sub(lambda match: "'" * match[0].count("\\prime"), text) if "\\prime" in text else text
    text = _UNDERLINED.sub(r"\1", _PLAIN_ROOT.sub(r"\\sqrt{\1}", _SPACELESS.sub(_with_space, text)))
    text = _LAYOUT.sub(lambda match: " " if match[0] in _SPACES or "quad" in match[0] else "", text)
    text = re.sub(r"(?<=\d) (?=\d{3}(?!\d))|(?<=\d)\{,\}(?=\d{3}(?!\d))", "", text).replace("{,}", ",")
    return _BARE_FRACTION.sub(
        lambda match: "\\frac" + "".join(f"{{{part.strip('{}')}}}" for part in match.groups()), text
    )


def _with_space(match: re.Match[str]) -> str:
    r"""Return `\cot x` for `\cotx`, which data sets without spaces have, but leave `\sinh` alone."""
    return match[0] if match[0][1:] in _COMMANDS else f"\\{match[1]} {match[2]}"


def _is_whole(latex: str) -> bool:
    """Whether groups are closed, commands are known, and there is more than punctuation."""
    depth = brackets = 0
    for match in re.finditer(r"\\.|[{}()\[\]]", latex, re.DOTALL):
        if (sign := match[0]) in "{}":
            depth += 1 if sign == "{" else -1
            if depth < 0:
                return False
        elif sign in "([)]":
            brackets += 1 if sign in "([" else -1
    if depth or brackets or _DANGLING.search(latex) or latex.count("\\{") < latex.count("\\}"):
        return False
    if any(command not in _COMMANDS for command in _COMMAND.findall(latex)):
        return False
    return latex.replace(" ", "") in ("\\{\\}", "[]", "()") or _EMPTY_GROUPS.fullmatch(latex) is None


def _is_mathematics(latex: str) -> bool:
    r"""Whether LaTeX has neither words nor notation that algebra misreads, such as `!!` and 3.5.0."""
    if "\\text" in latex or "\\mbox" in latex or "!!" in latex or re.search(r"\d\.\d*\.\d|(?<![_\d])\d+\s+\d", latex):
        return False
    if not latex.isascii():
        return False
    return all(_PRODUCT.fullmatch(run) for run in _RUN.findall(_ENVIRONMENT.sub("", latex)))


_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[a-z*]+\}(?:\{[clr|]+\})?|\\(?:mathbb|mathcal|operatorname)\{[a-zA-Z]+\}")


def _key(content: str) -> str:
    text = _TEXT.sub(r"\1", _TEXT.sub(r"\1", _cleaned(content)))
    text = re.sub(r"\\[dt]frac", r"\\frac", text).replace("\\%", "%").replace("\\{", "{").replace("\\}", "}")
    text = re.sub(r"(?<=\d)\s+(?=\d)", "_", re.sub(r"(\\[a-zA-Z]+) (?=[^a-zA-Z])", r"\1", text))
    text = re.sub(r"\s+", "", text)
    text = _HALF_OF_DAY.sub(lambda half: f"{half[1].lower()}m", _MODULUS.sub(r"mod\1", text))
    if match := re.fullmatch(r"\(([A-Za-z])\)", text):
        text = match[1]
    return text.lower() if _RUN.search(_COMMAND.sub("", text)) else text


_MARKS = r"[\s*_`\"'$:：「『]*"
_STATED = re.compile(
    rf"(?:\bfinal answer(?: is)?|\banswer(?: is|\s*[:=])|\banswer(?=\s*\*+\s*:)|答案(?:是|为|為)?|答えは?|回答"
    rf"|答(?=\s*[:：])|<answer>|답은?|정답은?|ответ|respuesta|réponse|antwort|resposta|risposta|उत्तर|الإجابة|الجواب|^####){_MARKS}([^\n]{{1,{_NEAR}}})",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE_END = re.compile(r"[.!](?=\s)|[。！]")
_ENDING = re.compile(
    r"[\s*_`。.!」』]*(?:</answer>|です|である|だ|입니다|이다|。)?[\s*_`。.]*(?:I hope it is correct\.?)?\s*$",
    re.IGNORECASE,
)


# "not 3 but 4", "3. No wait, it is 4": what stands before the answer that is meant.
_NOT_BUT = re.compile(
    r"^(?:not [^,.\n]{1,40}(?:,? but (?:rather )?|[.,;] it is )"
    r"|.{1,40}?[.,;]\s(?:(?:no|wait|actually|sorry|or rather)\b[,.!\s]*){1,3}"
    r"(?:(?:it|that|the answer) is )?(?=[-$\d]))",
    re.IGNORECASE,
)
_BETWEEN_FORMULAS = re.compile(r"\$\s*(,|(?:, )?(?:and|or))\s*\$")
_ASIDE = re.compile(r"([^()]*\S)\s\(((?=[^()]*(?:[A-Za-z]{3}|i\.e|=))[^()]*)\)\W*")


def stated_answer(text: str, gold: MathAnswer | None = None) -> str | None:
    """Return what stands behind the last "answer is", "Answer:", "####" or "答案：" if it is a number or formula alone.

    Words count only if they are the expected ones. Of a text of one short line, all counts.

    >>> stated_answer("Final Answer: __73__"), stated_answer("答えは42です。"), stated_answer("The answer is no.")
    ('73', '42', None)
    """
    last, text = None, text[-20_000:]
    for last in _STATED.finditer(text):  # noqa: B007
        pass
    if is_denied(text, last.start(1)) if last else len(text) > _NEAR or "\n" in text:
        return None
    mark = "" if last is None else last[0][: last.start(1) - last.start()]
    said = without_emphasis(mark[len(mark.rstrip("*_`")) :] + (text if last is None else last[1])).lstrip("*_`")
    said = _NOT_BUT.sub("", said)
    aside = _ASIDE.fullmatch(said)
    without_aside = aside[1] if aside is not None and not _CHANGES_IT.search(aside[2]) else said
    for line in (without_aside, said, _SENTENCE_END.split(said)[0]):
        content = _BETWEEN_FORMULAS.sub(r" \1 ", _ENDING.sub("", line).strip("$ "))
        content = content.removeprefix("\\[").removesuffix("\\]").strip()
        reading = read_answer(content)
        if reading is None:
            continue
        if reading.quantity or _is_formula(content, reading) or (gold is not None and gold.key == reading.key):
            return content
    return None


def _is_formula(content: str, reading: MathAnswer) -> bool:
    """Whether an answer without a box has no English in it: neither words nor an article."""
    is_text = content.startswith(("a ", "I ")) or "$" in content or "\\[" in content or len(content) < 2
    latex = None if is_text else reading.latex
    return latex is not None and _TWO_LETTERS.search(_COMMAND.sub("", latex)) is None


_TWO_LETTERS = re.compile(r"(?![xyzabc]{2,3}(?![a-zA-Z]))(?<![a-zA-Z])[a-zA-Z]{2}")


def is_complex(latex: str) -> bool:
    """Whether an i stands alone in LaTeX, and is not an index."""
    return _IMAGINARY.search(latex) is not None and "_{i" not in latex and "_i" not in latex


_IMAGINARY = re.compile(r"(?<![a-zA-Z\\])i(?![a-zA-Z])|\\imath|\\(?:det|arg|Re|Im)\b|\\mathbb\{C\}")


def verdict_without_algebra(gold: MathAnswer, text: str) -> tuple[bool | None, str | None, MathAnswer | None]:
    """Find and read the answer in a text, and compare it as far as numbers and words go.

    Args:
        gold: The expected answer.
        text: What the model wrote.

    Returns:
        Whether it is right, or None if that needs algebra. The answer as it was written, or None if there is neither a
        box nor a number that is said to be the answer. The answer as it was read.
    """
    answer = boxed_answer(text) or stated_answer(text, gold)
    if answer is None:
        return (None if last_box(text, mentions=True) is None else False), None, None
    found = read_answer(answer)
    if found is None:
        return False, answer, None
    return compare_without_algebra(gold, found), answer, found


def compare_without_algebra(gold: MathAnswer, answer: MathAnswer) -> bool | None:
    """Compare two answers as numbers and as words; None if that needs algebra.

    >>> half, wordy = read_answer("1/2"), read_answer("one half")
    >>> compare_without_algebra(half, read_answer("0.5")), compare_without_algebra(half, wordy)
    (True, False)
    """
    if gold.key == answer.key:
        return True
    if gold.quantity is not None and answer.quantity is not None:
        return answer.quantity.answers(gold.quantity)
    if len(gold.key) == len(answer.key) == 1 and (gold.key + answer.key).isalpha():
        return False  # E is not Euler's number, and A not a
    if not (gold.latex or gold.quantity) or not (answer.latex or answer.quantity):
        return False
    return None if have_same_unit(gold.unit, answer.unit) else False
