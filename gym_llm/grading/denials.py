r"""Answers that a text names and does not give: denied, one of several, asked about, or taken back at the end.

An answer after "x is not" is not denied: it may be the value that x cannot have. Nor is one that "is wrong" or "is
false", since a question may ask for the wrong statement. The rules read few characters beside the answer.
"""

from __future__ import annotations

import re

_NEAR = 80  # characters before an answer that are read
_ANSWER = r"(?:\w+\s)?(?:answer|solution|result|option|choice|value|number)"
_IT = rf"\b(?:it|that|this|(?:the|my|our)\s{_ANSWER})"
_IS = rf"(?:{_IT}\s(?:is|was|(?:could|can|would|should)\sbe)|\b(?:it|that|this)['’]s)"
_DENIAL = re.compile(
    r"(?:(?:(?<!\w)(?:not|never|neither|nor|rather\sthan|instead\sof)|\b(?:is|was|are|were)n['’]?t)"
    rf"(?:\s(?:necessarily|actually|really|exactly|even|(?:the\s)?{_ANSWER}))?|\b(?:is|be)\sanything\s(?:but|other\sthan)"
    rf"|{_IT}\s(?:can|could|will|would|should|must|may|might|do|does|did)(?:\s?not|n?['’]t)\s(?:possibly\s)?(?:be|equal)"
    r"|(?:(?<!no\s)(?<!little\s)(?<!not\s)(?<!n['’]t\s)\bdoubt"
    r"|(?:not|n['’]t)\s(?:think|believe|(?:sure|certain|convinced)(?=\s(?:that|if|whether)\b)))"
    rf"(?:\s(?:that|if|whether))?\s{_IS})\Z"
)
_OPENING = " \n\t*_`\"'“‘([{}$~\\"
_BELIEFS = ("doubt", "think", "believe", "sure", "certain", "convinced")
_NEGATIONS = ("not", "n't", "n’t", "isnt", "never", "neither", "nor", "than", "instead", "anything")
# The last three letters of what `_DENIAL` matches, and words of which it has one: most texts are passed over quickly.
_ENDS: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("not", "n't", "n’t", "ver", "her", "snt", "nor", "han", " of", "but", "ual"), _NEGATIONS
)
_ENDS |= dict.fromkeys(("ily", "lly", "tly", "ven", "wer", "ion", "ult", "ice", "lue", "ber"), _NEGATIONS)
_ENDS |= {" be": (*_NEGATIONS, *_BELIEFS)}
_ENDS |= dict.fromkeys((" is", "was", "t's", "s's", "t’s", "s’s"), _BELIEFS)
_COMMAND = re.compile(r"\\[a-z]+\Z")
_ARTICLE = re.compile(r"\b(?:an?|the)\s\Z", re.IGNORECASE)
_VARIABLE = re.compile(r"(?:^|[\s$(])[b-hj-z]\$?\s(?:(?:is|are|was|can|could|may|must)\s)?\Z")
_ALTERNATIVE = re.compile(r"(?:\b(?:or|either)|[/|])[\s*_`\"'“‘(\[]*\Z", re.IGNORECASE)
_ENDING = r"[}\s$*_`)\"'”\]\\]{0,12}"
_FOLLOWS = re.compile(
    rf"{_ENDING}(?:(\?){_ENDING}(?:I(?:\sdo\snot|\sdon.t|(?:\sa|.)m\snot)\s(?:know|sure)\W{{0,4}})?\Z"
    rf"|(?:is|was)(?:\snot|n['’]t)\s(?:the|my|our)\s{_ANSWER}\b"
    r"|would\s(?:only\s|just\s|merely\s)?be\s(?:an?\s)?(?:\w+\s)?guess)",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"(?:^|[\n.!?:;,…])[\s*_\"'(]*(?:(?:hmm+|so|or|and|but|well|then|wait|now)[,.…\s]+){0,2}"
    r"(?:is|are|was|could|can|would|might|may|should|does|did|(?:what|how)\sabout|what\sif|why\snot)\b[^.!?\n]*\Z",
    re.IGNORECASE,
)
_STARTS = r"(?:^|[.!?)\]}>*\n])[\s*_]*"
_AHEM = r"(?:no|oh|but|so)[,.!\s…—–-]{1,4}"
_PAUSE = r"(?:wait|actually|hmm+|oops|sorry|hold on)[,.!:\s…—–-]{1,4}"
_WRONG = r"(?: is|['’]s| was) (?:wrong|incorrect|a mistake|not (?:right|correct|the answer))"
_THAT = rf"(?:{_PAUSE}(?:{_AHEM}|{_PAUSE}){{0,3}}(?:that|(?:my|the|that) (?:last )?answer)|my (?:last )?answer)"
_WITHDRAWN = re.compile(
    rf"{_STARTS}(?:{_AHEM}){{0,2}}(?:{_THAT}{_WRONG}|scratch that|I take (?:it|that) back"
    r"|(?:please )?(?:ignore|disregard|forget) my (?:last )?answer)"
    r"\W{0,8}(?:I (?:do not|don.t) know(?: the answer)?\W{0,4})?\Z",
    re.IGNORECASE,
)
_LAST_LETTERS = re.compile(r"(\w{3})\W{0,12}\Z")
_LAST_OF_WITHDRAWAL = {"ong", "ect", "ake", "ght", "wer", "hat", "ack", "now"}
_NEAR_END = 15
_LONGEST_WITHDRAWAL = 160  # characters


def is_denied(text: str, start: int) -> bool:
    """Return whether the words before an answer deny it: "It is not", "neither", "I doubt that it is".

    >>> [is_denied(text, len(text)) for text in ("It isn't ", "I do not think it is **", "x is not ", "Not 3, but ")]
    [True, True, False, False]
    """
    before = text[max(0, start - _NEAR) : start].lower().rstrip(_OPENING)
    if text[max(0, start - 1) : start] == "{":  # of \text or \boxed
        before = _COMMAND.sub("", before).rstrip(_OPENING)
    words = _ENDS.get(before[-3:])
    if words is None:
        return False
    for word in words:  # faster than `any`
        if word in before:
            break
    else:
        return False
    denial = _DENIAL.search(before)
    return denial is not None and _VARIABLE.search(before, 0, denial.start()) is None


def is_given(text: str, start: int, end: int) -> bool:
    r"""Return whether a text gives an answer that it names: nothing denies it, and the last words do not ask for it.

    >>> [is_given(text, text.index("4"), text.index("4") + 1) for text in ("Is it 4?", "Is it 4? Yes.", "So: 4?")]
    [False, True, True]
    """
    follows = _FOLLOWS.match(text, end) if end < len(text) else None
    if follows is not None and (not follows[1] or _ASKS.search(text, max(0, start - _NEAR), start)):
        return False
    return not is_denied(text, start)


def is_given_in_sentence(text: str, start: int, end: int) -> bool:
    """Return `is_given` for words of a sentence, before which an article may stand: "It is not the cup"."""
    article = _ARTICLE.search(text, max(0, start - _NEAR), start)
    return is_given(text, start if article is None else article.start(), end)


def is_doubted(text: str, start: int) -> bool:
    """Return whether the word before a choice denies it, or makes it one of several.

    >>> text = "Not 1, but 2 or 3"
    >>> [is_doubted(text, place) for place in (4, 11, 16)]
    [True, False, True]
    """
    return is_denied(text, start) or _ALTERNATIVE.search(text[max(0, start - _NEAR) : start]) is not None


def is_withdrawn(text: str) -> bool:
    """Return whether a text ends with words that take its answer back, and gives no other.

    >>> [is_withdrawn(f"So B. {end}") for end in ("No wait, that is wrong.", "Actually, C is wrong.", "Wait. It is C.")]
    [True, False, False]
    """
    last = _LAST_LETTERS.search(text, len(text) - _NEAR_END if len(text) > _NEAR_END else 0)
    if last is None or last[1].lower() not in _LAST_OF_WITHDRAWAL:
        return False
    return _WITHDRAWN.search(text[-_LONGEST_WITHDRAWAL:]) is not None
