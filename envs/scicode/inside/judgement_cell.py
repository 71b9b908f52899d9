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


def _lacks_values(value):  # type: ignore[no-untyped-def]
    """Whether it, or a part of it, has no items, or is "not a number" as a whole."""
    if isinstance(value, (str, bytes, list, tuple, dict, set, frozenset)):
        if len(value) == 0:
            return True
        parts = value.values() if isinstance(value, dict) else value
        return not isinstance(value, (str, bytes)) and any(map(_lacks_values, parts))
    if hasattr(value, "tocoo"):
        return 0 in value.shape
    if isinstance(value, (float, complex, numpy.ndarray, numpy.inexact)):
        numbers = numpy.asarray(value)
        return numbers.size == 0 or (numbers.dtype.kind in "fc" and bool(numpy.isnan(numbers).all()))
    return False


def _containers(value):  # type: ignore[no-untyped-def]
    if isinstance(value, (list, tuple, dict, set, frozenset, numpy.ndarray)):
        yield value
    if isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _containers(part)


class _Returned:
    """The values that the solution returned, in the order in which the tests use them."""

    def __init__(self, returned, namespace):  # type: ignore[no-untyped-def]
        self._left = {site: iter(values.decode(many)) for site, many in returned.items()}
        self._namespace = namespace
        self._containers = {}  # type: ignore[var-annotated]

    def __call__(self, site):  # type: ignore[no-untyped-def]
        value = next(self._left[site])
        if _lacks_values(value) and not _lacks_values(self._namespace["target"]):
            raise AssertionError("it returned no values where some are expected")  # loops over it would assert nothing
        self._containers.update((id(part), part) for part in _containers(value))
        return value

    def zip(self, *parts, **named):  # type: ignore[no-untyped-def]
        """Pair items as `zip` does; a returned value that is shorter or longer than another part has failed."""
        sizes = {len(part) for part in parts if hasattr(part, "__len__")}
        if len(sizes) > 1 and any(self._containers.get(id(part)) is part for part in parts):
            raise AssertionError(f"it returned a value of another length: {sorted(sizes)}")
        return zip(*parts, **named)  # noqa: B905 - the test says whether it is strict


def _main():  # type: ignore[no-untyped-def]
    for name in ("allclose", "isclose"):
        setattr(numpy, name, _never_vacuous(getattr(numpy, name)))
    package, folder = types.ModuleType("scicode"), types.ModuleType("scicode.compare")
    package.compare, folder.cmp = folder, compare  # type: ignore[attr-defined]
    sys.modules.update({"scicode": package, "scicode.compare": folder, "scicode.compare.cmp": compare})
    targets, tests = values.decode(_read("targets.json")), _read("tests.json")
    namespace = {"__name__": "__main__", "targets": targets}
    returned = _Returned(_read("returned.json"), namespace)
    namespace.update(__returned__=returned, zip=returned.zip)
    with open("dependencies.txt", encoding="utf-8") as file:
        exec(compile(file.read(), "dependencies.py", "exec", dont_inherit=True), namespace)
    for number, (test, target) in enumerate(zip(tests, targets, strict=False)):
        namespace["target"] = target
        exec(compile(test, f"test{number + 1}.py", "exec", dont_inherit=True), namespace)


_main()
