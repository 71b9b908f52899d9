"""NewtonBench: find a law of physics by experiments (NeMo Gym's `newton_bench`)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any, Literal

import numpy as np
from pydantic import Field

from gym_llm import BaseTask, Episode, Metric, Verdict, tool
from gym_llm.envs.newton_bench.apparatus import APPARATUS, SYSTEMS, Experiments, prompt_of, result_of
from gym_llm.envs.newton_bench.experiments import EXPERIMENTS, Noisy
from gym_llm.envs.newton_bench.laws import (
    DOMAINS,
    Difficulty,
    Version,
    code_of,
    formula_of,
    law_of,
    points_of,
)
from gym_llm.errors import ToolError
from gym_llm.judge import FAILS, JudgedEnv, yes_no_line
from gym_llm.sandbox import Limits, sandbox_for
from gym_llm.sandbox.python_tool import EpisodePython, PythonSessionEnv, error_text, shortened
from gym_llm.types import Row, is_said, message_text
from gym_llm.utils.json_codec import dumps

_POINTS = 5_000
_LONGEST = 20_000  # characters of a law
_NOISES = (0.0, 0.0001, 0.001, 0.01, 0.1)
_RETURNS = re.compile(r"return\s+.")
_PROGRAM = """
import json, math, sys
import numpy as np
given = json.load(sys.stdin)
names = {"np": np, "numpy": np, "math": math}
exec(compile(given["law"], "law", "exec"), names)
law, values = names["discovered_law"], []
for point in given["points"]:
    try:
        value = law(*point)
    except (ValueError, ArithmeticError):
        if given["strict"]:
            raise
        value = math.nan
    values.append(None if isinstance(value, complex) or not math.isfinite(float(value)) else float(value))
print("\\n" + json.dumps(values))
"""


class Session(EpisodePython):
    """An episode's apparatus and interpreter.

    Args:
        task: The task.
        conform: Whether arguments that are null fail, as NeMo Gym's do, instead of standing for the default.
    """

    def __init__(self, task: NewtonBench.Task, *, conform: bool) -> None:
        super().__init__()
        self.task, self.conform, self.runs = task, conform, 0

    def measure(self, module: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run an experiment; an error of the apparatus is its result."""
        task = self.task
        if module != task.module_name:
            raise ToolError(f"The apparatus of {module} is not here; there is that of {task.module_name}.")
        given = {name: value for name, value in arguments.items() if value is not None}
        if not all(math.isfinite(value) for value in given.values()):
            raise ToolError("The arguments have to be finite numbers.")
        self.runs += 1
        noisy = Noisy(task.noise_level, np.random.default_rng([_seed(task), self.runs]))
        law = law_of(module, task.difficulty, task.law_version)
        try:
            if self.conform:
                _check_nulls(task, arguments)
            with np.errstate(all="ignore"):
                return {"result": result_of(EXPERIMENTS[module][task.system](law, given, noisy))}
        except (ArithmeticError, ValueError, TypeError) as error:
            return {"result": {"error": str(error)}}


class NewtonBench(Experiments, PythonSessionEnv, JudgedEnv):  # type: ignore[misc, valid-type]
    """Find a law of physics by experiments; the reward is from -1.0 to 1.0, by a judge and by the law's values.

    Args:
        max_execution_time: `code_exec_timeout_s`, by NeMo Gym's name.
        conform: `"nemo"` reads nulls and values as NeMo Gym does; the README lists the differences.
        **kwargs: As for every `PythonSessionEnv` and `JudgedEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:Answer: YES"}
    python_tool = "execute_python"
    default_preload = ("numpy", "scipy")
    prelude = "import math, numpy, scipy\nnp = numpy\ntry:\n    import pandas as pd\nexcept ImportError:\n    pass\n"
    metrics = {
        **PythonSessionEnv.metrics,
        "symbolic_equivalent": Metric("rate"),
        "rmsle": Metric("median", higher_is_better=False),
    }

    class Task(BaseTask):
        """Which law, and how it is measured."""

        module_name: Literal[tuple(APPARATUS)]  # type: ignore[valid-type]
        difficulty: Difficulty
        system: Literal["vanilla_equation", "simple_system", "complex_system"]
        noise_level: float = Field(ge=0, le=10)
        law_version: Version

    def __init__(
        self, tasks: str | list[Row] | None = None, *, max_execution_time: float = 60.0, **kwargs: Any
    ) -> None:
        super().__init__(tasks, **{"code_exec_timeout_s": max_execution_time, **kwargs})

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw a domain, a difficulty, a system, a level of noise and one of three laws."""
        module = str(rng.choice(list(APPARATUS)))
        fields: dict[str, Any] = {
            "difficulty": str(rng.choice(["easy", "medium", "hard"])),
            "system": str(rng.choice(SYSTEMS)),
            "noise_level": float(rng.choice(_NOISES)),
            "law_version": str(rng.choice(["v0", "v1", "v2"])),
        }
        text = prompt_of(module, fields["system"], fields["noise_level"])
        row = self.row(text, module_name=module, **fields)
        names = (f"run_experiment_{module}", "execute_python")
        row["responses_create_params"]["tools"] = [each for each in self.tool_schemas() if each["name"] in names]
        return row

    def setup(self, task: Task) -> Session:
        """Set up the apparatus; the interpreter begins with its first call."""
        return Session(task, conform=self.conform is not None)

    @tool
    async def execute_python(self, code: str, state: Session) -> dict[str, Any]:
        """Run Python code, with math, numpy (np), scipy and pandas (pd). What is defined is kept for the next call.

        Args:
            code: The code. What it prints is returned, and the value of the last line if that is an expression.
        """
        cell = await state.run(self, code)
        most = self.code_exec_max_output_chars
        error = error_text(cell, self.code_exec_timeout_s)
        return {
            "success": cell.error is None,
            "stdout": shortened(cell.stdout, most),
            "stderr": shortened(cell.stderr, most),
            "error_message": shortened(error, most) if error else None,
            "result": None if cell.text is None else shortened(cell.text, most),
        }

    @tool
    async def end_session(self, state: Session) -> dict[str, Any]:
        """Throw away all that was defined; the next call begins anew."""
        await state.close()
        return {}

    def oracle(self, task: Task) -> str:
        """Return the law itself."""
        return f"<final_law>\n{code_of(task.module_name, task.difficulty, task.law_version)}\n</final_law>"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the values of the submitted law with those of the right one, and ask the judge about its form."""
        code = _final_law(episode)
        about = {name: getattr(task, name) for name in ("difficulty", "system", "noise_level", "law_version")}
        details: dict[str, Any] = {**about, "extracted_law": code, **self.tool_use(episode)}
        if code is None:
            return Verdict(0.0, {**details, "evaluation_error": "No law found between <final_law> and </final_law>."})
        if (error := _wrong_form(task, code)) is not None:
            details.update(symbolic_equivalent=False, exact_accuracy=0.0, evaluation_error=error)
            return Verdict(-0.3, details)
        rmsle, error = await self._rmsle(task, code)
        is_same = await self._is_same(task, code)
        details.update(symbolic_equivalent=is_same, exact_accuracy=float(is_same), evaluation_error=error)
        if rmsle is None:
            return Verdict(1.0 if is_same else -0.3, details)
        reward = 0.3 * (1.0 if is_same else -1.0) + 0.7 * (1.0 - 2.0 * rmsle / (rmsle + 3.0))
        return Verdict(reward, {**details, "rmsle": rmsle})

    async def _rmsle(self, task: Task, code: str) -> tuple[float | None, str | None]:
        """Return the root mean squared logarithmic error, or what is wrong."""
        points = points_of(task.module_name, np.random.default_rng(_seed(task)), _POINTS).tolist()
        law = law_of(task.module_name, task.difficulty, task.law_version)
        expected = np.array([law(*point) for point in points], dtype=float)
        limits = Limits(cpu_seconds=self.code_exec_timeout_s, wall_seconds=self.code_exec_timeout_s)
        sandbox = await sandbox_for(self, self.sandbox, preload=self.preload)
        asked = {"law": code, "points": points, "strict": self.conform is not None}
        run = await sandbox.python(_PROGRAM, stdin=dumps(asked), limits=limits)
        try:
            values = json.loads(run.text.strip().rpartition("\n")[2]) if run.ok else None
            predicted = np.array([math.nan if value is None else float(value) for value in values or []])
        except (ValueError, TypeError):
            predicted = np.array([])
        if len(predicted) != len(points):
            return None, f"The law cannot be evaluated: {(run.error or 'it printed something else')[:500]}"
        if not self.conform and not np.isfinite(predicted[np.isfinite(expected)]).all():
            return None, "The law is not finite where it should be."
        both = np.isfinite(expected) & np.isfinite(predicted)
        if not both.any():
            return None, None
        errors = np.log1p(np.abs(predicted[both])) - np.log1p(np.abs(expected[both]))
        return float(np.sqrt(np.mean(errors**2))), None

    async def _is_same(self, task: Task, code: str) -> bool:
        parameters = "\n".join(f"- {name}: {text}" for name, text in APPARATUS[task.module_name].law.items())
        expected = formula_of(task.module_name, task.difficulty, task.law_version)
        asked = {"parameters": parameters, "expected": expected, "submitted": code}
        for _ in range(3 if self.conform else 1):  # `ask` tries again only without `conform`
            read = _nemo_answer if self.conform else yes_no_line("Answer:")
            judgement = await self.ask(asked, read, unparsable="" if self.conform else FAILS)
            if judgement.value != "":
                return bool(judgement.value)
        return False


def _seed(task: NewtonBench.Task) -> int:
    """A number of the task, so that noise and points are the same whenever it is played."""
    text = f"{task.module_name} {task.difficulty} {task.law_version} {task.system} {task.noise_level!r}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")


def _final_law(episode: Episode) -> str | None:
    """The last law of the last message that has one."""
    for item in reversed(episode.items):
        if is_said(item):
            _, start, rest = message_text([item]).rpartition("<final_law>")
            law, end, _ = rest.partition("</final_law>")
            if start and end:
                return law.strip()
    return None


def _wrong_form(task: NewtonBench.Task, code: str) -> str | None:
    names = list(DOMAINS[task.module_name].parameters)
    signature = r"def\s+discovered_law\s*\(\s*" + r",\s*".join(names) + r"\s*\):"
    if len(code) > _LONGEST:
        return f"The law has more than {_LONGEST:,} characters."
    if not re.search(signature, code):
        return f"Invalid function signature. Must be def discovered_law({', '.join(names)}):"
    return None if _RETURNS.search(code) else "No return statement found"


def _nemo_answer(text: str) -> bool | None:
    said = text.strip().upper()
    if answer := re.search(r"ANSWER:\s*(YES|NO)", said):
        return answer[1] == "YES"
    words = re.findall(r"\b(YES|NO)\b", said)
    return words[-1] == "YES" if words else None


def _check_nulls(task: NewtonBench.Task, arguments: dict[str, Any]) -> None:
    """Raise a TypeError where NeMo Gym computes with a null."""
    used = _USED.get((task.module_name, task.system), ())
    if nulls := [name for name in used if arguments.get(name) is None]:
        raise TypeError(f"{nulls[0]} is null")


_RUN = ("duration", "time_step")
_USED: dict[tuple[str, str], tuple[str, ...]] = {
    ("m0_gravity", "simple_system"): ("initial_velocity", *_RUN),
    ("m0_gravity", "complex_system"): ("initial_velocity", *_RUN),
    ("m1_coulomb_force", "simple_system"): ("m2", *_RUN),
    ("m1_coulomb_force", "complex_system"): ("m2", *_RUN),
    ("m2_magnetic_force", "simple_system"): ("mass_wire", "initial_velocity", *_RUN),
    ("m2_magnetic_force", "complex_system"): ("mass_wire", "initial_velocity"),
    ("m3_fourier_law", "simple_system"): ("num_points",),
    ("m3_fourier_law", "complex_system"): ("num_points",),
    ("m4_snell_law", "vanilla_equation"): ("refractive_index_1", "refractive_index_2"),
    ("m4_snell_law", "simple_system"): ("speed_medium1", "speed_medium2"),
    ("m4_snell_law", "complex_system"): ("refractive_index_1", "refractive_index_2", "refractive_index_3"),
    ("m5_radioactive_decay", "vanilla_equation"): ("N0", "lambda_constant"),
    ("m5_radioactive_decay", "simple_system"): ("N0", "lambda_constant", "num_points"),
    ("m5_radioactive_decay", "complex_system"): ("N0a", "N0b", "lambda_a", "lambda_b", "num_points"),
    ("m6_underdamped_harmonic", "complex_system"): ("initial_amplitude",),
    ("m8_sound_speed", "simple_system"): ("distance",),
    ("m8_sound_speed", "complex_system"): ("driving_frequency", "tube_diameter"),
    ("m9_hooke_law", "simple_system"): ("m",),
    ("m9_hooke_law", "complex_system"): ("m",),
    ("m10_be_distribution", "vanilla_equation"): ("omega",),
    ("m10_be_distribution", "simple_system"): ("probe_frequency",),
    ("m10_be_distribution", "complex_system"): ("center_frequency", "bandwidth"),
}
"""The optional arguments that an experiment computes with."""
