"""The process that runs the tests. The program is in another one; data comes from it, and stand-ins for other objects.

What the tests have replaced (by `mock.patch`, or by assignment to a module) is replaced in the program's process during
each call. What a call prints, logs, warns of and draws is repeated here.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import logging
import sys
import types
import unittest
import unittest.mock
import warnings
from typing import Any

import plain_values  # type: ignore[import-not-found]
import stand_ins  # type: ignore[import-not-found]
import two_sides  # type: ignore[import-not-found]

_PROGRAM = "__test__"
_OF_MOCKS = frozenset(
    ["return_value", "side_effect", "called", "call_count", "call_args", "call_args_list", "mock_calls", "method_calls"]
    + [name for name in dir(unittest.mock.Mock) if name.startswith(("assert", "reset", "configure", "attach", "mock_"))]
)
_NOT_PATCHED = {"sys": ("stdout", "stderr", "modules", "path", "meta_path", "path_hooks", "path_importer_cache")}
_COMMON = ("builtins", "os", "sys", "time", "random", "subprocess", "json", "logging", "socket", "shutil", "os.path")
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)
_original = {"stdout": sys.stdout, "stderr": sys.stderr}
_show_warning = getattr(warnings, "_showwarnmsg_impl", None)
_patches: list[Any] = []


def _described(value: Any) -> dict[str, Any]:
    kind = type(value)
    mocked = isinstance(value, unittest.mock.NonCallableMock)
    shown = value.__class__ if mocked else kind
    return {
        "of": two_sides.bases_of(shown if isinstance(shown, type) else kind),
        "name": getattr(value, "__name__", kind.__name__) if isinstance(value, _FUNCTIONS) else kind.__name__,
        "has": [name for name in two_sides.special(stand_ins.operate) if hasattr(kind, name)],
        "function": isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)),
        "parameters": _parameters(value) if isinstance(value, types.FunctionType) else None,
    }


def _parameters(function: types.FunctionType) -> list[list[Any]]:
    """Return the parameters, and at last what is returned: name, kind, default values if they are texts or numbers."""
    signature = inspect.signature(function)
    found: list[list[Any]] = []
    for one in signature.parameters.values():
        default = one.default if type(one.default) in (bool, int, float, str, type(None)) else 0
        has_default = one.default is not inspect.Parameter.empty
        found.append([one.name, int(one.kind), [default] if has_default else [], _annotation(one.annotation)])
    return [*found, ["return", 0, [], _annotation(signature.return_annotation)]]


def _annotation(annotation: Any) -> str | None:
    if annotation is inspect.Parameter.empty or annotation is inspect.Signature.empty:
        return None
    if annotation is None:
        return "None"
    known = isinstance(annotation, type) and annotation.__module__ == "builtins"
    return annotation.__name__ if known else annotation if isinstance(annotation, str) else None


class TestLine(two_sides.Line):  # type: ignore[misc]
    """The tests' end of the line."""

    def __init__(self, reading: int, writing: int) -> None:
        super().__init__(reading, writing, stand_ins.stand_in, _described)
        self.modules: dict[str, dict[str, Any]] = {}
        self.managers: dict[int, Any] = {}
        self.levels = _levels()

    def module(self, name: str) -> Any:
        """Refuse a module: its functions would run here."""
        raise plain_values.NotPlain("a module")

    def watch(self, names: set[str]) -> None:
        """Note what modules have now, so that what a test puts in its place is found."""
        for name in {*names, *_COMMON}:
            module = sys.modules.get(name)
            if isinstance(module, types.ModuleType):
                self.modules[name] = dict(vars(module))

    def have(self, op: str, number: int, arguments: tuple[Any, ...], named: dict[str, Any], **more: Any) -> Any:
        """Have the program's process do something, and return or raise the result."""
        streams = [name for name, stream in _original.items() if getattr(sys, name) is not stream]
        levels = {name: level for name, level in _levels().items() if self.levels.get(name) != level}
        state = {"patches": self._patched(), "capture": streams, "levels": levels, "open": self._open()}
        answer = self.ask(op, number, arguments, named, **state, **more)
        self.levels = _levels()
        for name in streams:
            text = answer["output"].get(name)
            if type(text) is str and text:
                getattr(sys, name).write(text)
        self._replay(answer)
        self._show_figures(answer["figures"])
        if "error" in answer:
            raise two_sides.error_from(answer["error"], self)
        if type(answer.get("same")) is int:
            return arguments[answer["same"]]
        return self.unpack(answer["value"])

    def result(self, message: dict[str, Any]) -> dict[str, Any]:
        """Do what the program asks of an object of the tests, and return the answer."""
        self.world.apply(message.get("world") or {})
        arguments = [self.unpack(one) for one in message["args"]]
        named = {str(name): self.unpack(one) for name, one in message["named"]}
        answer: dict[str, Any] = {}
        try:
            value = self.objects[message["n"]]
            _check(value, message["op"], arguments)
            answer["value"] = self.pack(two_sides.perform(value, message["op"], arguments, named))
        except Exception as error:
            answer["error"] = two_sides.error_of(error, self)
        answer["changed"] = self.changed(message, arguments, named)
        answer["world"] = self.world.changes()
        return answer

    def _patched(self) -> list[Any]:
        found: dict[tuple[str, ...], Any] = {}
        for patch in _patches:
            target, attribute = patch.target, patch.attribute
            if isinstance(target, types.ModuleType):
                found[target.__name__, attribute] = getattr(target, attribute, None)
            elif isinstance(target, type):
                path = (target.__module__, *target.__qualname__.split("."), attribute)
                found[path] = getattr(target, attribute, None)
        for name, before in self.modules.items():
            for attribute, value in vars(sys.modules[name]).items():
                if before.get(attribute, value) is not value:
                    found.setdefault((name, attribute), value)
        return [
            [module, path, attribute, self.pack(value)]
            for (module, *path, attribute), value in found.items()
            if attribute not in _NOT_PATCHED.get(module, ()) and (path or not attribute.startswith("__"))
        ]

    def _replay(self, answer: dict[str, Any]) -> None:
        for name, level, text in answer["logged"]:
            logger = logging.getLogger(str(name) if name != "root" else None)
            if logger.hasHandlers() and type(level) is int and logger.isEnabledFor(level):
                logger.handle(logger.makeRecord(logger.name, level, "", 0, str(text), (), None))
        if getattr(warnings, "_showwarnmsg_impl", None) is not _show_warning:
            for bases, text in answer["warned"]:
                found = [plain_values.found(str(module), str(name)) for module, name in bases]
                kinds = [one for one in found if isinstance(one, type) and issubclass(one, Warning)]
                warnings.warn(str(text), kinds[0] if kinds else Warning, stacklevel=2)

    def _open(self) -> list[int] | None:
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is None:
            return None
        return [number for number, manager in self.managers.items() if helpers.Gcf.figs.get(number) is manager]

    def _show_figures(self, figures: list[Any]) -> None:
        if not figures and not self.managers:
            return
        helpers = importlib.import_module("matplotlib._pylab_helpers")
        shown = {number: self.unpack(figure) for number, figure in figures if type(number) is int}
        for number in list(self.managers):
            if number not in shown:
                if helpers.Gcf.figs.get(number) is self.managers[number]:
                    del helpers.Gcf.figs[number]
                del self.managers[number]
        for number, figure in shown.items():
            if number not in self.managers and number not in helpers.Gcf.figs:
                self.managers[number] = helpers.Gcf.figs[number] = _Manager(number, figure)


class _Manager:
    """Stands for the manager of a figure that is open in the program's process."""

    def __init__(self, number: int, figure: Any) -> None:
        self.num = number
        self.canvas = types.SimpleNamespace(figure=figure, manager=self, mpl_disconnect=lambda _: None)
        self._cidgcf = 0

    def destroy(self) -> None:
        """Do nothing: the next message says that it is closed."""

    def show(self) -> None:
        """Do nothing."""


def _check(value: Any, op: str, arguments: list[Any]) -> None:
    """Refuse operations by which the program would change what judges it, or leave the object."""
    if op not in ("getattr", "setattr"):
        return
    name = arguments[0]
    of_library = any(module != _PROGRAM for module, _ in two_sides.bases_of(type(value))[:1])
    if type(name) is not str or name.startswith("__" if of_library else "_"):
        raise AttributeError(str(name)[:100])
    if isinstance(value, (*_FUNCTIONS, unittest.TestCase)):
        raise AttributeError(name)
    if isinstance(value, unittest.mock.NonCallableMock):
        sets_up = op == "setattr" and (name in _OF_MOCKS or name.startswith("_"))
        if sets_up or name.startswith(("_mock", "reset", "configure", "attach", "mock_")):
            raise AttributeError(name)
    of_program = op == "setattr" and issubclass(type(arguments[1]), two_sides.StandIn)
    if of_program or (op == "setattr" and isinstance(value, (type, types.ModuleType))):
        raise AttributeError(f"{name} cannot be set")


def _levels() -> dict[str, int]:
    loggers = {"": logging.root, **logging.root.manager.loggerDict}
    return {name: one.level for name, one in loggers.items() if isinstance(one, logging.Logger)}


def _note_patches() -> None:
    kind = unittest.mock._patch  # type: ignore[attr-defined]
    enter, leave = kind.__enter__, kind.__exit__

    def entered(self: Any) -> Any:
        value = enter(self)
        _patches.append(self)
        return value

    def left(self: Any, *error: Any) -> Any:
        if self in _patches:
            _patches.remove(self)
        return leave(self, *error)

    for name, function in (("__enter__", entered), ("__exit__", left)):
        setattr(kind, name, function)


def _imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return names


def _bound(tree: ast.Module) -> list[list[str | None]]:
    """Return the names that the tests' imports bind, which the program finds when they share a module, as usual."""
    found: list[list[str | None]] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            found += [
                [one.name if one.asname else one.name.partition(".")[0], None, one.asname or one.name.partition(".")[0]]
                for one in node.names
            ]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [[node.module, one.name, one.asname or one.name] for one in node.names if one.name != "*"]
    return found


def run(test: str, prompt: str, name: str, reading: int, writing: int) -> tuple[list[str], dict[str, str]]:
    """Run the tests; return the names of those that succeeded, and the messages of the others."""
    line = TestLine(reading, writing)
    module = types.ModuleType(_PROGRAM)
    sys.modules[_PROGRAM] = module
    exec(compile(f"{prompt}\n    pass\n", "__prompt__.py", "exec", dont_inherit=True), module.__dict__)
    given = module.__dict__.get(name)

    def called(*arguments: Any, **named: Any) -> Any:
        return line.have("entry", 0, arguments, named, name=name)

    module.__dict__[name] = called
    if isinstance(given, types.FunctionType):
        functools.update_wrapper(called, given)
    tree = ast.parse(test)
    _note_patches()
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    exec(compile(test, "__tests__.py", "exec", dont_inherit=True), module.__dict__)
    line.ask("names", 0, (), {}, imports=_bound(tree))
    for node in ast.walk(tree):  # names that only the program defines
        if not isinstance(node, ast.Name) or node.id in own or node.id.startswith("_"):
            continue
        if node.id not in module.__dict__ and not hasattr(builtins, node.id):
            try:
                module.__dict__[node.id] = line.have("global", 0, (), {}, name=node.id)
            except (KeyError, plain_values.NotPlain):
                pass  # a name of a function's own
    line.watch(_imported(tree) | _imported(ast.parse(f"{prompt}\n    pass\n")))
    return outcome(module.TestCases)


def outcome(cases: type) -> tuple[list[str], dict[str, str]]:
    """Run the tests of a class: the names of those that succeeded, and the messages of the others."""
    succeeded: list[str] = []
    failed: dict[str, str] = {}

    class Result(unittest.TestResult):
        """Collects the results of the tests by name; a missing test has not succeeded."""

        def addSuccess(self, test: unittest.TestCase) -> None:
            succeeded.append(test._testMethodName)

        def addError(self, test: unittest.TestCase, err: Any) -> None:
            self._add(test, err)

        def addFailure(self, test: unittest.TestCase, err: Any) -> None:
            self._add(test, err)

        def addSkip(self, test: unittest.TestCase, reason: str) -> None:
            failed[getattr(test, "_testMethodName", "ALL")] = f"skipped: {reason}"[:3000]

        def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
            if err is not None:
                self._add(test, err)

        def _add(self, test: unittest.TestCase, err: Any) -> None:
            text = self._exc_info_to_string(err, test)  # type: ignore[attr-defined]
            failed[getattr(test, "_testMethodName", "ALL")] = text[-3000:]

    unittest.defaultTestLoader.loadTestsFromTestCase(cases).run(Result())  # type: ignore[type-var]
    return sorted(set(succeeded) - failed.keys()), failed
