"""Inputs of MBPP+ that JSON cannot hold: tuples, sets and complex numbers, which the files keep as lists and texts.

Source of the rule: evalplus 0.3.1, `mbpp_deserialize_inputs`.
"""

from __future__ import annotations

import re

_TUPLES = "[tuple(each) for each in args]"
_LISTS_OF_TUPLES = "[[tuple(each) for each in inner] for inner in args]"
_FIRST_TUPLE = "[tuple(args[0]), *args[1:]]"
_DEEP = "(lambda deep: deep(deep, args))(lambda deep, x: tuple(deep(deep, y) for y in x) if isinstance(x, list) else x)"
_FORMS = {
    _TUPLES: "2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 744 809",
    _LISTS_OF_TUPLES: "63 64 70 94 120 237 272 299 400 409 417 438 473 614 780",
    "[[tuple(each) for each in args[0]], args[1]]": "75 413 444 753",
    "[args[0], tuple(args[1])]": "106 750",
    "[[set(each) if isinstance(each, list) and each else {} for each in args[0]]]": "115",
    "[float(args[0]), complex(args[1])]": "124",
    _FIRST_TUPLE: "250 307 405 446 617 720 763 808",
    "[tuple(tuple(each) for each in inner) for inner in args]": "259 401 445",
    "[tuple(tuple(each) if isinstance(each, list) else each for each in args[0])]": "278",
    "[{key: tuple(value) for key, value in args[0].items()}, *args[1:]]": "722",
    "[complex(args[0])]": "252",
    _DEEP: "580 615 791",
}
_FORM_OF = {int(number): form for form, numbers in _FORMS.items() for number in numbers.split()}


def input_form(task_id: str | None) -> str:
    """Return a Python expression that makes the arguments of the JSON list `args`; "" if they are as they stand.

    >>> input_form("Mbpp/252"), input_form("HumanEval/252")
    ('[complex(args[0])]', '')
    """
    match = re.fullmatch(r"Mbpp/(\d{1,6})", task_id or "")
    return _FORM_OF.get(int(match[1]), "") if match else ""
