"""Runs a step's tests on the results of a solution's calls. The author's side: no code of the model is here."""

import json
import sys
import types

import compare  # type: ignore[import-not-found]
import numpy
import values  # type: ignore[import-not-found]


def _read(name):  # type: ignore[no-untyped-def]
    with open(name, encoding="utf-8") as file:
        return json.load(file)


def _never_vacuous(function):  # type: ignore[no-untyped-def]
    """A comparison of numpy's for which an empty array is close to another empty one only, not to everything."""

    def compared(first, second, *arguments, **named):  # type: ignore[no-untyped-def]
        if (numpy.size(first) == 0) != (numpy.size(second) == 0):
            return numpy.False_
        return function(first, second, *arguments, **named)

    return compared


def _is_vacuous(value):  # type: ignore[no-untyped-def]
    if isinstance(value, (list, tuple)):
        return len(value) == 0 or any(_has_empty_array(item) for item in value)
    return _has_empty_array(value)


def _has_empty_array(value):  # type: ignore[no-untyped-def]
    if isinstance(value, (list, tuple, dict)):
        return any(map(_has_empty_array, value.values() if isinstance(value, dict) else value))
    if hasattr(value, "tocoo"):
        return 0 in value.shape
    return isinstance(value, numpy.ndarray) and value.size == 0


def _main():  # type: ignore[no-untyped-def]
    for name in ("allclose", "isclose"):
        setattr(numpy, name, _never_vacuous(getattr(numpy, name)))
    package, folder = types.ModuleType("scicode"), types.ModuleType("scicode.compare")
    package.compare, folder.cmp = folder, compare  # type: ignore[attr-defined]
    sys.modules.update({"scicode": package, "scicode.compare": folder, "scicode.compare.cmp": compare})
    returned = {site: iter(values.decode(many)) for site, many in _read("returned.json").items()}
    targets, tests = values.decode(_read("targets.json")), _read("tests.json")
    namespace = {"__name__": "__main__", "targets": targets}

    def handed_over(site):  # type: ignore[no-untyped-def]
        value = next(returned[site])
        if _is_vacuous(value) and not _is_vacuous(namespace["target"]):
            return values.Opaque("an array without items")
        return value

    namespace["__returned__"] = handed_over
    with open("dependencies.txt", encoding="utf-8") as file:
        exec(compile(file.read(), "dependencies.py", "exec", dont_inherit=True), namespace)
    for number, (test, target) in enumerate(zip(tests, targets, strict=False)):
        namespace["target"] = target
        exec(compile(test, f"test{number + 1}.py", "exec", dont_inherit=True), namespace)


_main()
