"""The Berkeley Function Calling Leaderboard through `bfcl-eval`: its data, its simulated services and its checkers."""

from __future__ import annotations

import functools
import itertools
import json
import keyword
import os
import re
import sys
from typing import Any

ENV_ID = "gym_llm/BFCLEval-v0"
PACKAGES = (
    *("bfcl-eval==2026.3.23", "tree_sitter==0.21.3", "tree-sitter-java==0.21.0", "tree-sitter-javascript==0.21.4"),
    *("mpmath", "overrides", "filelock", "tenacity"),
)
OPTIONS = ("--no-deps",)  # it depends on the packages of every vendor
MODULE = "bfcl_eval"
FRAMEWORKS = ("bfcl_eval",)
APART = True
MAX_TURNS = 200
_REFUSED = {
    "web_search": "the web search tasks of BFCL need a network",
    "memory": "the memory tasks of BFCL begin with what the model has noted in earlier conversations",
    "format_sensitivity": "the format sensitivity tasks of BFCL are for models without function calls",
}
_MOST = {("power", "exponent"): 1_000, ("logarithm", "precision"): 1_000, ("square_root", "precision"): 1_000}
_UNKNOWN = "_unknown_function_()"
_numbers = itertools.count()


class Peer:
    """A task of BFCL: calls of one turn, or a conversation with simulated services whose last states are compared.

    In a conversation a turn without calls lets the user go on. More than 20 turns with calls in a row end it.

    Args:
        task: A category (`multi_turn_base`), whose tasks are played in turn; or a task's id (`multi_turn_base_17`).
    """

    recording = False

    def __init__(self, task: str = "multi_turn_base") -> None:
        check({"task": task})
        self._task = task
        self._model = f"gym_llm_{os.getpid()}_{next(_numbers)}"  # names the task's services in their module
        self._turns: list[list[list[str]]] = [[]]
        self._steps = 0

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin with the first question."""
        category, index = _found(self._task, seed or 0)
        self._category, self._is_long = category, "long_context" in category
        self._asked, self._entry, self._answer = (each[index] for each in _data(category))
        self._functions = list(self._asked["function"])
        self._later: dict[str, Any] = self._asked.get("missed_function") or {}
        every = [*self._functions, *itertools.chain.from_iterable(self._later.values())]
        self._names = {_plain(function["name"]): function["name"] for function in every}
        turn = {"say": self._asked["question"][0], "tools": _tools(self._functions)}
        if self.recording:
            question, functions = self._entry["question"], self._entry["function"]
            turn["observation"] = question if self._is_conversation else [question, functions]
        return turn

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Check the calls, or make them and let the user go on after the last."""
        if not self._is_conversation:
            return self._checked(action["calls"])
        if "steps" in action:
            for strings in action["steps"]:
                self._made(strings)
            return self._next([])
        calls = [self._written(call) for call in action["calls"]]
        if None in calls:  # their loop ends the user's turn
            return self._next(_outputs(action["calls"], ["Not run: arguments are not a JSON object."] * len(calls)))
        if not calls:
            return self._next([])
        from bfcl_eval.constants.default_prompts import MAXIMUM_STEP_LIMIT

        said = _outputs(action["calls"], self._made([str(call) for call in calls]))
        self._steps += 1
        if self._steps > MAXIMUM_STEP_LIMIT:
            return {"say": said, "reward": 0.0, "terminated": True, "info": {"error": "multi_turn:force_terminated"}}
        return {"say": said}

    def close(self) -> None:
        """Forget the services of this episode."""
        utils = sys.modules.get("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils")
        for name in [name for name in vars(utils or object) if name.startswith(f"{self._model}_")]:
            delattr(utils, name)

    @property
    def _is_conversation(self) -> bool:
        return self._category.startswith("multi_turn")

    def _checked(self, calls: list[dict[str, Any]]) -> dict[str, Any]:
        from bfcl_eval.constants.enums import Language
        from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

        made = [{self._names.get(call["name"], call["name"]): call["arguments"]} for call in calls]
        if not all(isinstance(call["arguments"], dict) for call in calls):
            made = []
        if "relevance" in self._category:
            return _over(bool(made) is ("irrelevance" not in self._category), None)
        language = next((each for each in ("javascript", "java") if self._category.endswith(each)), "python")
        functions, answer = self._entry["function"], self._answer["ground_truth"]
        found = ast_checker(functions, made, answer, Language(language), self._category, self._model)
        return _over(found["valid"], found.get("error_type"))

    def _made(self, strings: list[str]) -> list[str]:
        from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call

        if strings:
            self._turns[-1].append(strings)
        entry = self._entry
        results, _ = execute_multi_turn_func_call(
            strings, entry["initial_config"], entry["involved_classes"], self._model, entry["id"], self._is_long
        )
        return [str(result) for result in results]

    def _written(self, call: dict[str, Any]) -> str | None:
        """Return a call as Python, which their code evaluates; None if its arguments are not an object."""
        name, arguments = call["name"], call["arguments"]
        if not isinstance(arguments, dict):
            return None
        is_known = name in self._names and all(key.isidentifier() and not keyword.iskeyword(key) for key in arguments)
        too_much = any(
            not isinstance(value := arguments.get(key, 0), (int, float)) or abs(value) > most
            for (function, key), most in _MOST.items()
            if function == name
        )
        if not is_known or too_much:  # a call that fails
            return _UNKNOWN
        return f"{self._names[name]}({','.join(f'{key}={value!r}' for key, value in arguments.items())})"

    def _next(self, said: list[dict[str, Any]]) -> dict[str, Any]:
        """Go on with the user's next message, or compare."""
        number = len(self._turns)
        if number == len(self._asked["question"]):
            return self._compared()
        self._turns.append([])
        self._steps = 0
        turn: dict[str, Any] = {"say": [*said, *self._asked["question"][number]]}
        if functions := self._later.get(str(number)):
            from bfcl_eval.constants.default_prompts import DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC

            self._functions += functions
            turn["tools"] = _tools(self._functions)
            turn["say"].append({"role": "user", "content": DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC})
        return turn

    def _compared(self) -> dict[str, Any]:
        from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

        answer = self._answer["ground_truth"]
        found = multi_turn_checker(self._turns, answer, self._entry, self._category, self._model)
        return _over(found["valid"], found.get("error_type"))


def _over(is_right: bool, error: str | None) -> dict[str, Any]:
    return {"reward": float(is_right), "terminated": True, "info": {"error": error}}


def _outputs(calls: list[dict[str, Any]], texts: list[str]) -> list[dict[str, Any]]:
    return [
        {"type": "function_call_output", "call_id": call["call_id"], "output": text}
        for call, text in zip(calls, texts, strict=True)
    ]


def check(arguments: dict[str, Any]) -> None:
    """Refuse the categories that cannot be played.

    Raises:
        ValueError: If the task is of one of them.
    """
    for begin, why in _REFUSED.items():
        if str(arguments["task"]).startswith(begin):
            raise ValueError(f"{arguments['task']}: {why}.")


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the id of each task of a category."""
    ids = _tasks().get(arguments["task"])
    return [{}] if ids is None else [{"task": name} for name in ids]


def _plain(name: str) -> str:
    return re.sub(r"\.", "_", name)


@functools.cache
def _tasks() -> dict[str, list[str]]:
    """Return the categories and the ids of their tasks."""
    from importlib.resources import files

    found = {}
    for file in (files("bfcl_eval") / "data").iterdir():
        if file.name.startswith("BFCL_v4_"):
            lines = file.read_text(encoding="utf-8").splitlines()
            category = file.name.removeprefix("BFCL_v4_").removesuffix(".json")
            found[category] = [json.loads(line).get("id") for line in lines] if category not in _REFUSED else []
    return found


def _found(task: str, seed: int) -> tuple[str, int]:
    """Return a task's category, and its place among the tasks of that."""
    known = _tasks()
    if task in known:
        return task, seed % len(known[task])
    category = task.rpartition("_")[0]
    if task not in known.get(category, ()):
        raise ValueError(f"BFCL has no task or category {task!r}. Its categories: {', '.join(sorted(known))}.")
    return category, known[category].index(task)


@functools.cache
def _data(category: str) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the tasks as models see them, as the checkers do, and the answers."""
    os.environ.setdefault("BFCL_PROJECT_ROOT", os.path.join(sys.prefix, "bfcl"))  # it makes folders
    if "bfcl_eval.constants.model_config" not in sys.modules:  # which imports every vendor's package
        from types import ModuleType, SimpleNamespace

        class Every(dict[str, Any]):
            def __missing__(self, _: str) -> Any:
                return SimpleNamespace(underscore_to_dot=False)

        module = sys.modules["bfcl_eval.constants.model_config"] = ModuleType("bfcl_eval.constants.model_config")
        module.MODEL_CONFIG_MAPPING = Every()  # type: ignore[attr-defined]
    from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry

    asked, plain = (load_dataset_entry(category, include_language_specific_hint=each) for each in (True, False))
    return asked, plain, [{}] * len(asked) if "relevance" in category else load_ground_truth_entry(category)


def _tools(functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from bfcl_eval.constants.enums import ModelStyle
    from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
    from bfcl_eval.model_handler.utils import convert_to_tool

    tools = convert_to_tool(functions, GORILLA_TO_OPENAPI, ModelStyle.OPENAI_RESPONSES)
    shown = ("type", "name", "description", "parameters")
    return [{**{key: tool[key] for key in shown}, "strict": False} for tool in tools]


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments of a recorded episode."""
    return {"task": episode["kwargs"]["id"]}, None


def utter(action: Any) -> dict[str, Any]:
    """Return the output for a recorded action: calls, or the steps of a user's turn as lists of Python's calls."""
    if any(isinstance(each, list) for each in action):
        return {"text": "", "calls": [], "steps": action}
    pairs = [next(iter(call.items())) for call in action]
    return {"text": "", "calls": [{"call_id": "", "name": name, "arguments": given} for name, given in pairs]}


def as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the turns as the recorder wrote them: all questions first, and one reward."""
    last = turns[-1]
    return {"observations": turns[0]["observation"], "rewards": [last.get("reward")], "done": last.get("terminated")}
