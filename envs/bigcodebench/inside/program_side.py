"""The process that runs the program: it answers what the tests ask. The program can change all of this.

Nothing here is trusted by the other side, and nothing here knows a test.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import io
import logging
import sys
import types
import warnings
from typing import Any

import plain_values  # type: ignore[import-not-found]
import two_sides  # type: ignore[import-not-found]

_MOST_TEXT = 1 << 22
_PROGRAM = "__test__"


class Stub(two_sides.StandIn):  # type: ignore[misc]
    """Stands for an object of the tests, such as a mock; what is done to it is done there."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return _operate(self, "getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            _operate(self, "setattr", name, value)


def _operate(stub: Stub, op: str, *arguments: Any, **named: Any) -> Any:
    line = object.__getattribute__(stub, "_gym_line")
    answer = line.ask(op, object.__getattribute__(stub, "_gym_number"), arguments, named)
    if "error" in answer:
        raise two_sides.error_from(answer["error"], line)
    return line.unpack(answer["value"])


def _stub(line: Any, number: int, described: dict[str, Any]) -> Any:
    found = [plain_values.found(*path) for path in described["of"]]
    known = next((one for one in found if isinstance(one, type)), None)
    methods = {name: one for name, one in two_sides.special(_operate).items() if name in described["has"]}
    body: dict[str, Any] = {"__slots__": (), **methods}
    if known is not None and known is not object:
        body["__class__"] = property(lambda self: known)
    if described["function"]:

        def function(*arguments: Any, **named: Any) -> Any:
            return _operate(stub, "__call__", *arguments, **named)

        stub = type(described["name"], (Stub,), body)(line, number)
        function.__name__ = function.__qualname__ = described["name"]
        _sign(function, described["parameters"])
        line.functions[id(function)] = function, number
        return function
    return type(described["name"], (Stub,), body)(line, number)


def _sign(function: Any, parameters: list[list[Any]] | None) -> None:
    """Give a function the parameters of the one that it stands for."""
    if parameters is None:
        return
    kinds = {kind.value: kind for kind in inspect._ParameterKind}  # type: ignore[attr-defined]
    made = []
    function.__annotations__ = {}
    for name, kind, default, annotation in parameters:
        if annotation is not None:
            function.__annotations__[name] = None if annotation == "None" else getattr(builtins, annotation, annotation)
        if name != "return":
            more = {"default": default[0]} if default else {}
            annotated = function.__annotations__.get(name, inspect.Parameter.empty)
            made.append(inspect.Parameter(name, kinds[kind], annotation=annotated, **more))
    returned = function.__annotations__.get("return", inspect.Signature.empty)
    function.__signature__ = inspect.Signature(made, return_annotation=returned)


def _described(value: Any) -> dict[str, Any]:
    kind = type(value)
    return {
        "of": two_sides.bases_of(kind),
        "name": kind.__name__,
        "coroutine": inspect.iscoroutine(value),
        "generator": isinstance(value, types.GeneratorType),
        "callable": callable(value),
        "function": isinstance(value, (types.FunctionType, types.BuiltinFunctionType)),
    }


class _Output:
    """What is printed during a call, where the tests have put something in the place of standard output."""

    def __init__(self, wanted: list[str]) -> None:
        self.wanted = wanted
        self.before = {name: getattr(sys, name) for name in wanted}
        self.made = {name: io.TextIOWrapper(io.BytesIO(), "utf-8", "replace", newline="") for name in wanted}
        for name, stream in self.made.items():
            setattr(sys, name, stream)

    def end(self) -> dict[str, str]:
        """Put the streams back, and return the texts."""
        texts = {}
        for name, stream in self.made.items():
            setattr(sys, name, self.before[name])
            try:
                stream.flush()
                texts[name] = stream.buffer.getvalue()[:_MOST_TEXT].decode("utf-8", "replace")  # type: ignore[attr-defined]
            except ValueError:
                pass  # the program has closed it
        return texts


class ProgramLine(two_sides.Line):  # type: ignore[misc]
    """The program's end of the line."""

    def __init__(self, reading: int, writing: int, module: types.ModuleType) -> None:
        super().__init__(reading, writing, _stub, _described)
        self.program = module
        self.functions: dict[int, tuple[Any, int]] = {}
        self.figures: dict[int, Any] = {}
        self.logged: list[Any] = []
        self.deep = 0
        _note_records(self.logged)

    def known(self, value: Any) -> dict[str, Any] | None:
        """Return the JSON for a stand-in, and None for any other value."""
        function, number = self.functions.get(id(value), (None, 0))
        if function is value and number:
            return {"t": "yours", "n": number}
        return super().known(value)  # type: ignore[no-any-return]

    def result(self, message: dict[str, Any]) -> dict[str, Any]:
        """Do what the tests ask, and return the answer."""
        try:
            return self._result(message)
        except Exception as error:  # an argument that has no copy here, say
            empty: dict[str, Any] = {"output": {}, "logged": [], "warned": [], "figures": []}
            return {**empty, "error": two_sides.error_of(error, self)}

    def _result(self, message: dict[str, Any]) -> dict[str, Any]:
        self.world.apply(message["world"])
        patched = _Patches(self, message.get("patches") or [])
        for name, level in (message.get("levels") or {}).items():
            logging.getLogger(name or None).setLevel(level)
        self._close(message.get("open"))
        output = _Output(message.get("capture") or [])
        answer: dict[str, Any] = {}
        arguments = [self.unpack(one) for one in message["args"]]
        named = {name: self.unpack(one) for name, one in message["named"]}
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                value = self._do(message, arguments, named)
                same = next((place for place, one in enumerate(arguments) if one is value and value is not None), None)
                answer["value"] = self.pack(value) if same is None else None
                answer["same"] = same
            except BaseException as error:
                try:
                    answer["error"] = two_sides.error_of(error, self)
                except Exception:
                    answer["error"] = two_sides.error_of(RuntimeError(type(error).__name__), self)
        patched.undo()
        answer["output"] = output.end()
        try:
            answer["changed"] = self.changed(message, arguments, named)
        except Exception:
            answer["changed"] = []
        answer["warned"] = [[two_sides.bases_of(one.category), str(one.message)[:1000]] for one in warned[:100]]
        answer["logged"], self.logged[:] = list(self.logged), []
        answer["figures"] = self._figures()
        answer["world"] = self.world.changes()
        return answer

    def _do(self, message: dict[str, Any], arguments: list[Any], named: dict[str, Any]) -> Any:
        if message["op"] == "entry":
            return self.program.__dict__[message["name"]](*arguments, **named)
        if message["op"] == "names":
            return self._bind(message["imports"])
        if message["op"] == "global":
            return self.program.__dict__[message["name"]]
        value = self.objects[message["n"]]
        if message["op"] == "method":
            return getattr(value, message["name"])(*arguments, **named)
        return two_sides.perform(value, message["op"], arguments, named)

    def _bind(self, imports: list[Any]) -> None:
        for module, attribute, name in imports:
            try:
                found = importlib.import_module(module)
                if attribute is not None and not hasattr(found, attribute):
                    found = importlib.import_module(f"{module}.{attribute}")
                elif attribute is not None:
                    found = getattr(found, attribute)
                self.program.__dict__[name] = found
            except Exception:
                continue  # the tests' own import failed, too

    def _figures(self) -> list[Any]:
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is None:
            return []
        self.figures = {number: manager.canvas.figure for number, manager in helpers.Gcf.figs.items()}
        return [[number, self.pack(figure)] for number, figure in self.figures.items()]

    def _close(self, still_open: list[int] | None) -> None:
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is not None and still_open is not None:
            for number in [number for number in self.figures if number not in still_open]:
                helpers.Gcf.destroy(number)


class _Patches:
    """The attributes that the tests have replaced, replaced here, too, during a call."""

    def __init__(self, line: ProgramLine, patches: list[Any]) -> None:
        self.before: list[tuple[Any, str, Any, bool]] = []
        for module, path, name, packed in patches:
            try:
                target: Any = line.program if module == _PROGRAM else importlib.import_module(module)
                for part in path:
                    target = getattr(target, part)
                own = vars(target)
                self.before.append((target, name, own.get(name), name in own))
                setattr(target, name, line.unpack(packed))
            except (ImportError, AttributeError, TypeError):
                continue

    def undo(self) -> None:
        """Put back what was there."""
        for target, name, value, was_there in reversed(self.before):
            if was_there:
                setattr(target, name, value)
            elif hasattr(target, name):
                delattr(target, name)


def _note_records(logged: list[Any]) -> None:
    handle = logging.Logger.handle

    def noted(self: logging.Logger, record: logging.LogRecord) -> None:
        try:
            logged.append([record.name, record.levelno, record.getMessage()[:10_000]])
        except Exception:
            pass  # its arguments do not fit its message
        handle(self, record)

    logging.Logger.handle = noted  # type: ignore[method-assign]


def serve(source: str, reading: int, writing: int) -> None:
    """Run the program, report that, and answer until the tests have ended."""
    module = types.ModuleType(_PROGRAM)
    sys.modules[_PROGRAM] = module
    line = ProgramLine(reading, writing, module)
    try:
        exec(compile(source, "__test__.py", "exec", dont_inherit=True), module.__dict__)
        line.send({"loaded": True})
    except BaseException as error:
        line.send({"loaded": False, "why": f"{type(error).__name__}: {error}"[:3000]})
        return
    while True:
        line.answer(line.receive())
