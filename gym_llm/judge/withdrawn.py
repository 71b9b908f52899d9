"""Labels that a judge names and does not mean: denied, quoted, asked about, copied, or beside a refusal to judge.

A judge that writes "It is not correct" has given no verdict. Neither has one that quotes the candidate's "[[A=B]]" and
then refuses. A label counts only where a verdict stands: at the start of its line, after a colon, a sentence or a word
such as "is". A label elsewhere is unreadable in every language. The rules take time linear in the length of the text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

_COPIED = 10  # words in the order of the prompt that are a copy
_LONG = 1 << 15  # characters of a prompt in which words are not looked for one by one
_LEAST_COPIED = 7  # words of a text that may be a copy as a whole
_WORD = re.compile(r"\w+")
_MOST_READ = 50_000  # characters at the end in which a refusal is looked for
_LONGEST_LINE = 500  # characters before a refusal that are searched for the quotation it may stand in
_NEAR = 120  # characters before a label in which it may be denied
_HARD_VERBS = (
    r"(?:help|assist|comply|engage|fulfil|(?:judge|grade|rate|score|evaluate|assess|compare)\s(?:th|it\b|such))"
)
_SOFT_VERBS = (
    r"(?:help(?!\sbut)|assist|comply|engage|fulfil|continue|judge|grade|rate|score|evaluate|assess|compare|decide"
    r"|determine|verify|say|tell|answer|provide|give|make|reach|render|know|do\s(?:that|this|so))\b"
)
_UNABLE = (
    r"(?:can(?:no|['’])t|can\snot|won['’]t|will\snot|could\s?n['’]t|could\snot|do\s?n['’]t|do\snot"
    r"|(?:am|['’]m|are|['’]re)\s(?:not\sable|unable|not\swilling|unwilling)\sto)\s(?:really\s|reliably\s|fairly\s)?"
)
_REFUSES = r"(?:(?:must|have\sto|will)\s)?(?:decline|refuse)\b"
_LEADS = (
    r"(?:(?:but|so|yet|and|however|though|although|therefore|thus|unfortunately|sorry|still|instead|also|hence"
    r"|I(?:['’]m|\sam)\s(?:very\s|truly\s)?sorry|I\sapologi[sz]e|as\san\sAI(?:\s\w{1,20}){0,3})[,.:;]?\s){0,3}"
)
_FIRST_PERSON = rf"(?:I|we)\s?(?:{_UNABLE}VERBS|{_REFUSES})"
_OPENING = re.compile(rf"[\s*_#]*{_LEADS}{_FIRST_PERSON.replace('VERBS', _HARD_VERBS)}", re.IGNORECASE)
_REFUSAL = re.compile(
    rf"(?:(?<=[.!?;:,)\]}}*_\"”’—–-]\s)|^|\b(?:but|so|yet|and|however|though)\s)[\s*_]{{0,4}}{_LEADS}"
    rf"(?:{_FIRST_PERSON.replace('VERBS', _SOFT_VERBS)}|(?:unable\sto|cannot)\s{_SOFT_VERBS}"
    r"|(?:it|this|that)\s(?:can(?:no|['’])t|can\snot)\sbe\s(?:judged|graded|rated|scored|evaluated|decided)"
    r"|it\sis\simpossible\sto\s(?:judge|grade|decide|say|tell)|I(?:['’]m|\sam)\snot\ssure)",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE_END = re.compile(r"[.!?](?=[\s\"”’)*_]|$)|\n")
_FILLERS = (
    r"(?:\s+(?:be|to|been|a|an|the|quite|really|fully|entirely|exactly|simply|strictly|completely|necessarily"
    r"|considered|call|called|judged|deemed|graded|marked|as|say|write|answer|give|it|that|this)){0,4}"
)
_DENIED = re.compile(
    r"(?:\bnot|n['’]t|\bcannot|\bnever|\bneither|\bnor|\bno\slonger|\brather\sthan|\binstead\sof|\bfar\sfrom"
    r"|\bhardly|\bbarely|\b(?:would|could|might|may)\sbe|\b(?:says|said|claims|claimed|states|stated|writes|wrote|reads"
    rf"|contains|contained|asserts|demands|insists|(?:ends|begins|ended|began)\swith)):?{_FILLERS}[\s*_`\"'“‘({{\[:]*\Z",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"(?<=not),[^,\n]{0,40},")
_CLAUSE = re.compile(r"[.!?;:\n,]|\bbut\b")
_HEDGED = re.compile(
    r"\b(?:not|cannot|never|neither|nor|no|hardly|barely|whether|if|unless|partly|partially|without"
    r"|(?:would|could|might|may|should)\sbe|far\sfrom)\b|n['’]t\b",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "“": "”", "‘": "’", "'": "'", "«": "»"}
_NAMED = r"(?:verdict|grade|grading|judge?ment|label|decision|conclusion|rating|score|points|result|refusal|correct)"
_VERDICT_IS = re.compile(
    rf"(?:\b(?:{_NAMED}|therefore|thus|hence|so)\b[^\w\n]{{0,6}}(?:is\b|:|=)?|^)[^\w\n]{{0,8}}\Z",
    re.IGNORECASE | re.MULTILINE,
)
_MARKER = re.compile(rf"\b{_NAMED}\b[\s*_\"'`]{{0,4}}[:=][^\w\n]*\Z", re.IGNORECASE)
_REST_OF_LINE = re.compile(r"[^\w\n]*$", re.MULTILINE)
_LEADS_TO_IT = re.compile(
    r"(?:^|[.!?…:;,=>)\]}–—→。！？：，；、-]"
    rf"|\b(?:is|was|are|be|so|therefore|thus|hence|but|or|rather|and|as|then|than|now|finally|the|my|a|an|both|{_NAMED}|response"
    r"|reflection|final|overall|total|quite|fully|entirely|clearly|indeed|also|still|actually|mostly|answer|json|say|choose|select|output"
    r"|return|give|award|assign|it|them|considered|called|judged|deemed|graded|marked|rated|scored)\b)"
    r"[\s*_`\"'“‘«(\[{$#|<>\\]*\Z",
    re.IGNORECASE | re.MULTILINE,
)
_FOLLOWS_IT = re.compile(
    r"[\s*_`\"'”’»)\]}$|\\]*?(?:$|[.,;:!()\[/\\<。！，；：–—-]"
    r"|\b(?:because|since|as|and|but|given|with|for|out|points?|is\s(?:my|the|our))\b)",
    re.IGNORECASE | re.MULTILINE,
)
_FORM = re.compile(
    r"(?:^|(?<=[.!?]\s))[\s*_#>`-]{0,8}(?:(?:so|therefore|thus|hence|but|my|the|our|final|overall|total|equivalence"
    rf"|response|is|are)\b[\s,:]{{1,3}}){{0,4}}{_NAMED}\b",
    re.IGNORECASE | re.MULTILINE,
)
_OBJECT = re.compile(r"\n\s{0,8}(?:```|\{)")
_INTRODUCES = re.compile(r":[\s*_`\"“]*\Z")
_FORM_IN_LINE = re.compile(rf"\b{_NAMED}\b", re.IGNORECASE)
_LONGEST_FORM = 40  # characters of a last line that can be nothing but a label


def without_copies(text: str, prompt: Iterable[str]) -> str:
    """Return a judge's text without the words that it has copied from its prompt, since it does not mean them.

    A copy has at least ten words in the order of the prompt, or is the whole text and has seven. So a verdict in the
    form that the prompt asks for stays.

    Args:
        text: The judge's text.
        prompt: The texts of the judge's request.

    >>> asked = ["Is it right? The answer says: Judgement: YES. End with Judgement: YES or Judgement: NO."]
    >>> without_copies("Hm. " + asked[0], asked), without_copies("Judgement: NO", asked)
    ('Hm.   ?   : : .   :   : .', 'Judgement: NO')
    """
    words = list(_WORD.finditer(text, max(0, len(text) - _MOST_READ)))
    size = min(_COPIED, len(words))
    if size < _LEAST_COPIED:
        return text
    half = size // 2  # a copy has these words from a multiple of their number on, so nearly all parts need no set
    halves = [[word[0] for word in words[start : start + half]] for start in range(0, len(words) - half + 1, half)]
    prompt = [part for part in prompt if len(part) > _LONG or any(all(one in part for one in half) for half in halves)]
    runs = list(_runs([word[0] for word in words], size)) if prompt else []
    own = set(runs)  # few: a prompt may have megabytes
    known = {run for part in prompt for run in _runs(_WORD.findall(part), size) if run in own}
    if not known:
        return text
    is_copied = bytearray(len(words))
    for place, run in enumerate(runs):
        if run in known:
            is_copied[place : place + size] = b"\1" * size
    kept, position = [], 0
    for word in itertools.compress(words, is_copied):
        kept.append(text[position : word.start()])
        position = word.end()
    return "".join(kept) + text[position:]


def _runs(words: list[str], size: int) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(size)), strict=False)


def deciding_part(text: str) -> str:
    """Return the part of a judge's text that can hold its verdict; all of it, unless the judge refuses one.

    A text that opens with a refusal has no such part, since a label after it is a quotation. After a later refusal
    only the form of a verdict counts: "Verdict: …", a short last line, or a last JSON object.
    Refusals that the judge quotes on the same line are the candidate's.

    >>> deciding_part("It says [[A=B]]. I cannot judge that."), deciding_part("I can't see a difference. [[A=B]]")
    ('', "I can't see a difference. [[A=B]]")
    >>> deciding_part("I cannot judge it. It ends with [[A=B]]"), deciding_part("I can't say why. Verdict: [[A=B]]")
    ('', 'Verdict: [[A=B]]')
    """
    if _OPENING.match(text):
        return ""
    end, first = 0, max(0, len(text) - _MOST_READ)
    for match in _REFUSAL.finditer(text, first):
        nearest = max(0, match.start() - _LONGEST_LINE)
        line = text[max(nearest, text.rfind("\n", nearest, match.start()) + 1) : match.start()]
        if (line.count('"') - line.count('\\"')) % 2 or line.count("“") > line.count("”") or line.startswith(">"):
            continue
        sentence_end = _SENTENCE_END.search(text, match.end())
        end = len(text) if sentence_end is None else sentence_end.end()
    return text[end:] if end == 0 else _form_after(text.rstrip(), end)


def _form_after(text: str, end: int) -> str:
    """Return what is in the form of a verdict after a refusal that ends at a place."""
    for form in _FORM.finditer(text, end):
        if not _is_introduced(text, form.start()):
            return text[form.start() :].lstrip()
    start = max(end - 1, text.rfind("\n", 0, len(text)))
    if text.endswith(("}", "```")) and (found := _OBJECT.search(text, max(0, end - 1))):
        start = found.start()
    elif len(text) - start > _LONGEST_FORM:
        return ""
    return text[start:].strip() if text.startswith("\n", start) and not _is_introduced(text, start) else ""


def _is_introduced(text: str, start: int) -> bool:
    """Whether the words before a place introduce a quotation, as "The answer says:" does."""
    before = text[max(0, start - _NEAR) : start].rstrip()
    return bool(_INTRODUCES.search(before)) and not _FORM_IN_LINE.search(before[before.rfind("\n") + 1 :])


def is_denied(text: str, start: int) -> bool:
    """Whether the words before a place deny what stands there, or report it as another's words."""
    return _DENIED.search(_MARKER.sub("", text[max(0, start - _NEAR) : start])) is not None


def is_meant(text: str, start: int, end: int, *, in_prose: bool = False) -> bool:
    """Whether the label between two places of a text is meant as the verdict.

    Args:
        text: The judge's text.
        start: The place of the label.
        end: The place after it.
        in_prose: Whether the label is a common word, such as `correct` for `CORRECT`. Any doubt in its clause counts.

    >>> text = "It is not [[A=B]]. [[A=B]]? It says '[[A=B]]' itself. So [[A=B]]"
    >>> [is_meant(text, place, place + 7) for place in (10, 19, 37, 57)]
    [False, False, False, True]
    """
    before = text[max(0, start - _NEAR) : start]
    if is_denied(text, start) or not _LEADS_TO_IT.search(before) or not _FOLLOWS_IT.match(text[end : end + _NEAR]):
        return False
    if in_prose and _HEDGED.search(_CLAUSE.split(_ASIDE.sub("", before))[-1]):
        return False
    if start and _QUOTES.get(text[start - 1]) == text[end : end + 1] != "":
        alone = _REST_OF_LINE.match(text, end + 1) is not None
        return alone and _VERDICT_IS.search(text[max(0, start - 1 - _NEAR) : start - 1]) is not None
    return True
