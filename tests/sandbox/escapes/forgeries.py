"""What a wrong program may try to be paid all the same: by reading what is expected, or by saying that it was right.

Every function is `solve(x)`, called with "q"; the right value is a key that only the verifier knows, `KEY-` and nine
digits. Every program reads "q" and should print the key.
"""

# ruff: noqa: E501
KEY = "KEY-918273645"

SEARCH = r"""
import gc, glob, inspect, io, os, re, sys, traceback
pattern = re.compile("KEY" + "-[0-9]{9}")
def look(value, depth=3):
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value).decode("latin-1")
    if isinstance(value, str):
        return pattern.findall(value)
    if depth and isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if depth and isinstance(value, (list, tuple, set, frozenset)):
        return [key for part in list(value) for key in look(part, depth - 1)]
    return look(inspect.getattr_static(value, "__dict__", None), depth - 1) if depth else []
def from_frames():
    frames = [*sys._current_frames().values(), *(record.frame for record in inspect.stack(0))]
    for frame, _ in traceback.walk_stack(sys._getframe()):
        frames.append(frame)
    for frame in frames:
        yield from look(dict(frame.f_locals)) + look(dict(frame.f_globals)) + look(frame.f_code.co_consts)
def from_objects():
    for value in gc.get_objects():
        yield from look(value, 1)
        for other in gc.get_referents(value):
            yield from look(other, 0)
    for other in gc.get_referrers(str):
        yield from look(other, 1)
def from_memory():
    with io.open("/proc/self/maps") as maps, io.open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            place, rights = line.split()[:2]
            start, end = (int(side, 16) for side in place.split("-"))
            if rights.startswith("rw") and end - start < 1 << 28:
                try:
                    memory.seek(start)
                    yield from look(memory.read(end - start))
                except (OSError, ValueError):
                    pass
def from_files():
    names = ["/proc/self/environ", "/proc/self/cmdline", *glob.glob("/proc/[0-9]*/environ"),
             *glob.glob("/proc/[0-9]*/cmdline"), *glob.glob("/proc/[0-9]*/mem")]
    for folder in {"/tmp", "/dev/shm", "/run", ".", *sys.path[:1]}:
        for above, _, files in os.walk(folder or "."):
            names += [os.path.join(above, name) for name in files]
    for name in names:
        try:
            with io.open(name, "rb") as file:
                yield from look(file.read(1 << 22))
        except OSError:
            pass
def from_descriptors():
    for number in range(3, 64):
        try:
            os.set_blocking(number, False)
            yield from look(os.read(number, 1 << 16))
        except OSError:
            pass
def search(*ways):
    for way in ways or (from_frames, from_objects, from_memory, from_files):
        for key in way():
            return key
    return "nothing"
"""

LIES = {  # expressions and classes that are equal to, or print as, anything
    "an object that is equal to all": "class E:\n    __eq__ = __le__ = __ge__ = lambda *a: True\n    __ne__ = lambda *a: False\n"
    "    __hash__ = lambda s: 0\n    __bool__ = lambda s: True\n    __repr__ = __str__ = lambda s: 'True'\n    __float__ = lambda s: 1.0\n"
    "    __len__ = lambda s: 1\n    __iter__ = lambda s: iter([s])\n    __getattr__ = lambda s, n: lambda *a: s\nvalue = E()",
    "a str that is equal to all": "class E(str):\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\n    __hash__ = lambda s: 0\nvalue = E('x')",
    "an int that is equal to all": "class E(int):\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\n    __hash__ = lambda s: 0\nvalue = E(1)",
    "a float that is equal to all": "class E(float):\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\n    __hash__ = lambda s: 0\nvalue = E(1)",
    "a list that is equal to all": "class E(list):\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\nvalue = E([1])",
    "a dict that is equal to all": "class E(dict):\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\nvalue = E(a=1)",
    "a class that is equal to all": "class M(type):\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\n    __hash__ = lambda s: 0\n"
    "class E(metaclass=M): pass\nvalue = E",
    "an object that says it is a str": "class E:\n    __class__ = str\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\nvalue = E()",
    "an object with tolist": "class E:\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\n    tolist = lambda s: s\nvalue = E()",
    "an array of a class of its own": "import numpy\nclass E(numpy.ndarray):\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\n"
    "    __array_function__ = lambda *a: True\nvalue = numpy.zeros(1).view(E)",
    "a scalar of numpy's": "import numpy\nclass E(numpy.str_):\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\n    __hash__ = lambda s: 0\nvalue = E('x')",
    "True": "value = True",
    "not a number": "value = float('nan')",
    "a generator": "value = (i for i in range(3))",
    "a mock": "from unittest import mock\nvalue = mock.ANY",
}  # fmt: skip

WORDS = r"""
import json, os, struct
SAID = [{"value": {"succeeded": ["test_one", "test_two"], "failed": {}}}, {"value": ["passed"]}, {"value": True},
        {"value": "x"}, {"value": None}, {"0.0": ["x"]}]
def frames(numbers=(1, 3, 4)):
    for said in SAID:
        text = json.dumps(said).encode()
        header = json.dumps({"names": ["repr", "str"], "sizes": [len(text) + 2, len(text)]}).encode()
        for number in numbers:
            try:
                os.write(number, struct.pack(">I", len(header)) + header + b"'" + text + b"'" + text)
            except OSError:
                pass
def every_pipe():
    for number in range(1, 256):
        for said in SAID:
            try:
                os.set_blocking(number, False)
                os.write(number, json.dumps(said).encode() + b"\n")
            except OSError:
                pass
"""

BEFORE = {  # what a program does when it is loaded; its value is wrong
    "ends with 0": "import os\nos._exit(0)",
    "sys.exit(0)": "import sys\nsys.exit(0)",
    "SystemExit that lies": "class E(SystemExit):\n    code = property(lambda s: 0)\nraise E",
    "at its end": "import atexit, os\natexit.register(os._exit, 0)",
    "says that it passed": "print('PASSED')\nprint('{\"value\": [\"passed\"]}')\nprint('OK', flush=True)",
    "frames": WORDS + "frames()",
    "frames, and ends": WORDS + "frames(); os._exit(0)",
    "frames when it is deleted": WORDS + "class D:\n    __del__ = lambda s: frames()\nkept = D()",
    "what others write": WORDS + "every_pipe()",
    "print": "import builtins\nbuiltins.print = lambda *a, **k: None\nbuiltins.input = lambda *a: 'q'",
    "open": "import builtins, io\nbuiltins.open = io.open = lambda *a, **k: io.StringIO('{}')",
    "repr and str": "import builtins\nbuiltins.repr = builtins.str = lambda *a: '{\"value\": true}'",
    "json": "import json\njson.dumps = lambda *a, **k: '{\"value\": true}'\njson.loads = lambda *a, **k: {}\njson.dump = lambda *a, **k: None",
    "all builtins": "import builtins\nfor n in ('all', 'any', 'len', 'zip', 'isinstance', 'type', 'sorted', 'set', 'abs'):\n"
    "    setattr(builtins, n, lambda *a, **k: True)",
    "AssertionError": "import builtins\nbuiltins.AssertionError = type('A', (Exception,), {})",
    "compile and exec": "import builtins\nbuiltins.exec = builtins.eval = lambda *a, **k: None\nbuiltins.compile = lambda *a, **k: None",
    "unittest": "import unittest, unittest.case\nfor c in (unittest.TestCase, unittest.case.TestCase):\n"
    "    c.assertEqual = c.fail = c.run = lambda *a, **k: None\nunittest.TestResult.addFailure = lambda *a: None",
    "unittest's modules": "import sys, types\nclass M(types.ModuleType):\n    __getattr__ = lambda s, n: type(n, (), {})\nsys.modules['unittest'] = M('unittest')",
    "standard output": "import io, sys\nsys.stdout = sys.stderr = sys.__stdout__ = io.StringIO()",
    "a closed standard output": "import os\nos.close(1)",
    "a tracer": "import sys\nsys.settrace(lambda f, e, a: None)\nsys.setprofile(lambda f, e, a: f.f_locals.update(value=1))",
    "an import hook": "import sys\nclass H:\n    find_spec = lambda *a: None\nsys.meta_path.insert(0, H())\nsys.modules['json'] = None",
    "an excepthook": "import os, sys\nsys.excepthook = lambda *a: os._exit(0)",
    "a signal": "import os, signal\nsignal.signal(15, lambda *a: os._exit(0)); os.kill(os.getpid(), 15)",
    "a thread": "import os, threading, time\nthreading.Thread(target=lambda: (time.sleep(0.02), os._exit(0)), daemon=True).start()",
    "a fork that goes on": "import os\nif os.fork(): os._exit(0)",
    "becomes another program": "import os\nos.execv('/bin/true', ['true'])",
}  # fmt: skip

DURING = {  # what a call does before it returns something wrong
    "ends with 0": "import os; os._exit(0)",
    "SystemExit": "raise SystemExit(0)",
    "a skipped test": "import unittest; raise unittest.SkipTest('no')",
    "StopIteration": "raise StopIteration",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "GeneratorExit": "raise GeneratorExit",
    "frames": "frames()",
    "frames, and ends": "frames(); os._exit(0)",
    "what others write": "every_pipe()",
    "no tests left": "import sys\n    for m in list(sys.modules.values()):\n        for n in list(vars(m)):\n"
    "            if n == 'TestCases':\n                for t in list(vars(vars(m)[n])):\n"
    "                    if t.startswith('test'): delattr(vars(m)[n], t)",
    "tests that do nothing": "import sys\n    for m in list(sys.modules.values()):\n        c = vars(m).get('TestCases')\n"
    "        if c:\n            for t in [t for t in vars(c) if t.startswith('test')]: setattr(c, t, lambda s: None)",
    "assertions that do nothing": "import unittest\n    for n in dir(unittest.TestCase):\n"
    "        if n.startswith('assert') or n == 'fail': setattr(unittest.TestCase, n, lambda *a, **k: None)",
    "results that are none": "import gc, unittest\n    for o in gc.get_objects():\n"
    "        if isinstance(o, type) and issubclass(o, unittest.TestResult):\n"
    "            o.addFailure = o.addError = lambda s, t, *a: s.addSuccess(t)",
}  # fmt: skip

BURN = """
import os, signal, sys, threading, time
def burn(seconds=1.5):
    clock = os.times
    end = sum(clock()[:2]) + seconds
    while sum(clock()[:2]) < end: pass
"""
SLOW = {  # right, but too late
    "time": BURN + "time.time = time.perf_counter = time.process_time = time.monotonic = lambda: 0.0\nburn()",
    "a thread": BURN + "t = threading.Thread(target=burn); t.start(); t.join()",
    "a child": BURN + "if os.fork() == 0: burn(); os._exit(0)\nos.wait()",
    "a child that nobody waits for": BURN + "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nif os.fork() == 0: burn(); os._exit(0)\n"
    "try: os.wait()\nexcept OSError: pass",
    "settimeofday": BURN + "import ctypes\nctypes.CDLL(None).settimeofday(bytes(16), None)\n"
    "try: time.clock_settime(0, 0.0)\nexcept OSError: pass\nburn()",
    "limits": BURN + "import resource\nfor n in (0, 15): \n    try: resource.setrlimit(n, (-1, -1))\n    except (ValueError, OSError): pass\nburn()",
    "signals": BURN + "for n in (24, 14, 15, 1): signal.signal(n, signal.SIG_IGN)\nburn()",
    "sleep": "import time\ntime.sleep(5)",
}  # fmt: skip


LIARS = {  # more values that claim to be right
    "a user's string": "import collections\nclass E(collections.UserString):\n    startswith = endswith = __contains__ = __eq__ = lambda *a: True\n"
    "    count = find = index = lambda *a: 1\nvalue = E('x')",
    "an equality of a library's file": "import collections\nclass E: pass\nexec(compile('def __eq__(s, o): return True', collections.__file__, 'exec'))\n"
    "E.__eq__ = __eq__\nE.__module__ = 'collections'\nvalue = E()",
    "a proxy of a liar": "import weakref\nclass E:\n    def __getattr__(self, name): return lambda *a: True\n    __eq__ = __contains__ = lambda *a: True\n"
    "kept = E()\nvalue = weakref.proxy(kept)",
    "a mock that says yes": "from unittest import mock\nvalue = mock.MagicMock()\nvalue.__eq__.return_value = value.__contains__.return_value = True\n"
    "value.startswith.return_value = value.equals.return_value = value.__len__.return_value = 1",
    "an approximation": "try:\n    import pytest\n    value = pytest.approx(0, abs=float('inf'))\nexcept ImportError:\n    value = None",
    "a named tuple that is equal to all": "import collections\nclass E(collections.namedtuple('E', 'a')):\n    __eq__ = __contains__ = lambda *a: True\n"
    "    startswith = equals = lambda *a: True\nvalue = E(1)",
    "an enumeration": "import enum\nclass E(str, enum.Enum):\n    A = 'x'\n    __eq__ = __contains__ = lambda *a: True\n    startswith = lambda *a: True\n"
    "    __hash__ = str.__hash__\nvalue = E.A",
    "a set that contains all": "class E(set):\n    __contains__ = __eq__ = issuperset = lambda *a: True\n    isdisjoint = lambda *a: False\nvalue = E([1])",
    "a frame that equals all": "try:\n    import pandas\n    class E(pandas.DataFrame):\n        equals = __contains__ = lambda *a: True\n"
    "        __eq__ = lambda *a: True\n    value = E()\nexcept ImportError:\n    value = None",
    "an array of liars": "import numpy\nclass E:\n    __eq__ = lambda *a: True\nvalue = numpy.array([E()], dtype=object)",
    "a dict of liars": "class E:\n    __eq__ = lambda *a: True\n    __hash__ = lambda s: 0\nvalue = {E(): E()}",
    "a data class": "import dataclasses\n@dataclasses.dataclass\nclass E:\n    x: int = 1\n    __eq__ = __contains__ = lambda *a: True\nvalue = E()",
}  # fmt: skip

VEHICLES = {  # things in the place of a function that give `value`
    "a class": "class solve:\n    __eq__ = __contains__ = lambda *a: True\n    startswith = equals = lambda *a: True\n    def __init__(self, x): pass",
    "a class that makes it": "class solve:\n    def __new__(cls, x): return value",
    "a metaclass": "class M(type):\n    def __call__(cls, x): return value\nclass solve(metaclass=M): pass",
    "a callable object": "class F:\n    def __call__(self, x): return value\nsolve = F()",
    "a partial": "import functools\nsolve = functools.partial(lambda v, x: v, value)",
    "a bound method": "class F:\n    def f(self, x): return value\nsolve = F().f",
    "a method of a library": "solve = {'q': value}.get",
    "a decorated function": "import functools\n@functools.lru_cache\ndef solve(x): return value",
    "a generator": "def solve(x):\n    yield value",
    "a coroutine": "async def solve(x): return value",
}

FORGED_MESSAGES = [  # values and errors of the line between the two processes
    *({"value": {"t": "mine", "n": n, "of": {"of": [of], "name": "str", "coroutine": False, "generator": False,
       "callable": True, "function": False}}} for n, of in enumerate(
        [["builtins", "str"], ["unittest.mock", "_ANY"], ["unittest.mock", "MagicMock"], ["collections", "UserString"],
         ["numpy", "ndarray"], ["re", "Pattern"], ["pathlib", "PurePath"], ["os", "path"], ["", ""]], 1)),
    *({"value": {"t": "yours", "n": n}} for n in range(3)),
    {"value": {"t": "module", "v": "unittest.mock"}}, {"value": {"t": "class", "v": ["unittest.mock", "_ANY"]}},
    {"value": {"t": "class", "v": ["builtins", "str"]}}, {"value": {"t": "enum", "v": ["unittest.mock", "_ANY", "x"]}},
    {"value": {"t": "array", "v": "", "dtype": "O8", "shape": [0], "scalar": False}}, {"value": [["x"]]},
    {"value": {"t": "namedtuple", "name": "a b", "fields": ["__eq__"], "v": [1]}}, {"value": {"t": "list"}},
    {"value": {"t": "namedtuple", "name": "a", "fields": ["x, __eq__=1"], "v": [1]}}, {"same": 0, "value": None},
    {"same": 10**9}, {}, {"value": {"t": "pattern", "v": "(a+)+$", "flags": 0}}, {"value": float("nan")},
    *({"error": {"of": [of], "name": of[1], "args": {"t": "list", "v": []}, "attributes": {"t": "dict", "v": []},
       "text": "", "trace": ""}} for of in (["unittest.case", "SkipTest"], ["unittest.case", "_ShouldStop"],
        ["builtins", "KeyboardInterrupt"], ["builtins", "SystemExit"], ["builtins", "GeneratorExit"])),
]  # fmt: skip
FORGED_MESSAGE = """
import json, sys
for frame in list(sys._current_frames().values()):
    while frame:
        for line in frame.f_locals.values():
            if type(line).__name__ == "ProgramLine":
                before = type(line)._result
                type(line)._result = lambda self, message: {**before(self, message), "value": None, "same": None, **FORGED}
        frame = frame.f_back
def solve(x): return 'wrong'
"""


def objects() -> dict[str, str]:
    """Programs whose `solve` is, or returns, an object that says that it is right."""
    lies = {**LIES, **LIARS}
    few = ["an object that is equal to all", "a str that is equal to all", "a mock", *LIARS]
    return {
        **{f"returns {name}": f"{code}\ndef solve(x): return value\n" for name, code in LIARS.items()},
        **{f"{vehicle} of {name}": f"{lies[name]}\n{code}\n" for vehicle, code in VEHICLES.items() for name in few},
        **{f"message {number}": FORGED_MESSAGE.replace("FORGED}", repr(message).replace("nan", "float('nan')") + "}")
           for number, message in enumerate(FORGED_MESSAGES)},
    }  # fmt: skip


def functions() -> dict[str, str]:
    """Programs with a wrong `solve`."""
    wrong = "\ndef solve(x): return 'wrong'\n"
    return {
        **{f"returns {name}": f"{code}\ndef solve(x): return value\n" for name, code in LIES.items()},
        **{f"at first {name}": f"{wrong}{code}\n" for name, code in BEFORE.items()},
        **{f"in the call {name}": f"{WORDS}\ndef solve(x):\n    {code}\n    return 'wrong'\n"
           for name, code in DURING.items()},
        **{f"searches {way}": f"{SEARCH}\ndef solve(x): return search({way})\n"
           for way in ("from_frames", "from_objects", "from_memory", "from_files")},
        "searches at first": f"{SEARCH}\nfound = search()\ndef solve(x): return found\n",
    }  # fmt: skip


def programs() -> dict[str, str]:
    """Programs that read standard input and print something wrong."""
    wrong = "\nprint(input() + ' wrong')\n"
    return {
        **{f"at first {name}": f"{code}\n{wrong}" for name, code in BEFORE.items()},
        **{f"at last {name}": f"{wrong}{code}\n" for name, code in BEFORE.items()},
        **{f"prints {name}": f"{code}\nprint(value)\n" for name, code in LIES.items()},
        **{f"searches {way}": f"{SEARCH}\nprint(search({way}))\n"
           for way in ("from_frames", "from_objects", "from_memory", "from_files", "from_descriptors")},
    }  # fmt: skip
