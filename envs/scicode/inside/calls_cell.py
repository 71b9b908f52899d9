"""Runs a solution and the tests' calls of it, and writes the results. The model's side.

The solution can make this output anything. But no target is here, and the output is never run.
"""

import json
import sys

import values  # type: ignore[import-not-found]

_returned: dict = {}  # type: ignore[type-arg]


def _note(site, value):  # type: ignore[no-untyped-def]
    _returned.setdefault(site, []).append(values.encode(value))
    return value


def _main():  # type: ignore[no-untyped-def]
    with open("solution.txt", encoding="utf-8") as file:
        solution = file.read()
    with open("calls.json", encoding="utf-8") as file:
        tests = json.load(file)
    module = sys.modules["__main__"].__dict__
    exec(compile(solution, "solution.py", "exec", dont_inherit=True), module)
    module["__note__"] = _note
    for number, test in enumerate(tests):
        exec(compile(test, f"test{number + 1}.py", "exec", dont_inherit=True), module)
    with open("returned.json", "w", encoding="utf-8") as file:
        json.dump(_returned, file)


_main()
