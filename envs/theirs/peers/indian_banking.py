"""Customers of an Indian bank: NeMo Gym's `indian_banking`, run from your checkout of NeMo Gym."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ENV_ID = "gym_llm/IndianBanking-v0"
PACKAGES = ("pydantic>=2.7",)
MODULE = "pydantic"
FRAMEWORKS = ("indian_banking",)
APART = True  # it is imported from a folder of the user's
MAX_TURNS = 25
ENGINES = {"user": 1, "judge": 2}
_SERVER = "resources_servers/indian_banking"
_DATA = "of the Hugging Face dataset NPCI/nemo-gym-indian-banking"
_TASK = ("task_id", "customer", "user_scenario", "evaluation_criteria", "initial_state", "opening_message")
_DETAILS = (
    *("strict", "action_frac", "action", "db", "communicate", "communicate_frac", "dense", "judge", "write_purity"),
    *("name_frac", "bad_writes", "seq_frac", "repeat_penalty", "longest_call_streak"),
)
_USER, _JUDGE = 1, 2
_SOURCES: set[str] = set()


class Peer:
    """A bank's assistant with 34 tools and a simulated customer; NeMo Gym's own code runs the tools and pays.

    The reward is 0.85 to 1.0 for a task that is done, and at most 0.4 for a part of it. A judge's part is small.

    Args:
        source: The folder of a checkout of NeMo Gym, or of its `resources_servers/indian_banking`.
        task: A row's fields, as an object.
        split: Without a task, the file of rows that are played: `SPLIT.jsonl` beside the data.
        user: The engine that plays the customer.
        judge: The engine that judges assertions in words; needed for tasks that have any.
        should_use_judge: Whether assertions in words count.
        strict_turn_protocol: Whether a turn with text and calls ends the episode; else the calls run.
        max_user_turns: After how many messages of the customer the next message of the model ends the episode.
        max_tool_rounds: After how many turns with calls it ends.
        db_fpath: The customers' data; None for `data/db.json` of the checkout.
        kb_fpath: The articles; None for `data/kb.json`.
    """

    recording = False

    def __init__(
        self,
        source: str = "",
        task: dict[str, Any] | None = None,
        split: str = "validation",
        user: Any = None,
        judge: Any = None,
        should_use_judge: bool = True,
        strict_turn_protocol: bool = False,
        max_user_turns: int = 8,
        max_tool_rounds: int = 12,
        db_fpath: str | None = None,
        kb_fpath: str | None = None,
    ) -> None:
        if task is None:
            raise ValueError("A row of NeMo Gym's indian_banking must be given: `tasks`, or `split`.")
        _import_from(source, _data(source, db_fpath, "db.json"), _data(source, kb_fpath, "kb.json"))
        self._task, self._judge, self._is_strict = task, judge if should_use_judge else None, strict_turn_protocol
        self._user_turns, self._tool_rounds = max_user_turns, max_tool_rounds
        self._said, self._rounds, self._answers = list[dict[str, str]](), 0, 0
        self._shown = self._seat = 0
        self._terminated = False
        if should_use_judge and not judge and _is_judged(task):
            raise ValueError("The task asserts something in words: give `judge`, or should_use_judge=False.")

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Prepare the customer's accounts; the turn has the tools and the customer's first message."""
        from resources_servers.indian_banking.core import engine, tool_schemas, user_sim

        task = self._task
        self._world = engine.seed_world(task["customer"])
        for action in (task.get("initial_state") or {}).get("initialization_actions") or []:
            if action.get("name"):
                engine.apply_tool(self._world, action["name"], dict(action.get("arguments") or {}))
                if self._world["calls"][-1]["error"]:
                    raise RuntimeError(f"The task's initialization_actions fail: {self._world['calls'][-1]['result']}")
        self._world["calls"].clear()
        self._world["transferred"] = False
        opening = task.get("opening_message") or user_sim.derive_opening_message(task["user_scenario"])
        self._said.append({"role": "user", "content": opening})
        items = [*task.get("input", []), {"role": "user", "content": opening}]
        seats = ["assistant", "customer", "judge"]
        return {"say": items, "tools": list(tool_schemas.TOOL_SCHEMAS), "seats": seats, "seat": 0}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Take the turn of the model, the customer or the judge."""
        if self._seat == _JUDGE:
            return self._judged(action["text"])
        if self._seat == _USER:
            return self._customer_says(action["text"].strip())
        text, calls = action["text"], action["calls"]
        if calls and text.strip() and self._is_strict:
            return self._over()
        if calls or text.strip():
            self._add("assistant", text.strip() if calls else text)
        if calls:
            outputs = [self._call(call) for call in calls]
            self._rounds += 1
            return self._over() if self._rounds >= self._tool_rounds else {"say": outputs, "seat": 0}
        if not text.strip() or self._answers >= self._user_turns:
            return self._over()
        return self._ask_customer()

    def _add(self, role: str, text: str) -> None:
        if text:
            self._said.append({"role": role, "content": text})

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        """Run a tool; a text that is a JSON list or object is one, and a search has one result."""
        from resources_servers.indian_banking.core import engine

        arguments = call["arguments"] if isinstance(call["arguments"], dict) else {}
        arguments = {name: _decoded(value) for name, value in arguments.items()}
        if call["name"] == "search_knowledge_base":
            arguments["top_k"] = 1
        output = engine.apply_tool(self._world, call["name"], arguments)
        return {"type": "function_call_output", "call_id": call["call_id"], "output": output}

    # -- the customer --------------------------------------------------------------------------------------------------

    def _ask_customer(self) -> dict[str, Any]:
        """Show the customer what was said since the last turn; roles are exchanged."""
        from resources_servers.indian_banking.core import user_sim

        items = [
            {"role": "user" if each["role"] == "assistant" else "assistant", "content": each["content"]}
            for each in self._said[self._shown :]
        ]
        if not self._shown:
            prompt = user_sim.user_sim_system_prompt(self._task["user_scenario"])
            items.insert(0, {"role": "system", "content": prompt})
        self._shown, self._seat = len(self._said) + 1, _USER  # behind the customer's own message
        return {"say": items, "seat": _USER}

    def _customer_says(self, text: str) -> dict[str, Any]:
        from resources_servers.indian_banking.core import user_sim

        if not text:
            raise ValueError("The simulated customer said nothing.")
        self._add("user", text)
        if any(token in text for token in user_sim.STOP_TOKENS):
            return self._over(terminated=True)
        self._answers, self._seat = self._answers + 1, 0
        return {"say": text, "seat": 0}

    # -- the end -------------------------------------------------------------------------------------------------------

    def _over(self, *, terminated: bool = False) -> dict[str, Any]:
        """Ask the judge, if the task has assertions; else pay."""
        from resources_servers.indian_banking.core import judge

        self._terminated = terminated
        request, score = judge.build_judge_request(self._task, self._said) if self._judge else (None, None)
        if request is None:
            return self._paid(score)
        self._seat, self._assertions = _JUDGE, request.num_assertions
        roles = (("system", request.system_prompt), ("user", request.user_prompt))
        return {"say": [{"role": role, "content": text} for role, text in roles], "seat": _JUDGE}

    def _judged(self, text: str) -> dict[str, Any]:
        from resources_servers.indian_banking.core import judge

        try:
            score = judge.parse_verdict(text, self._assertions)
        except (ValueError, AttributeError, TypeError) as error:
            raise ValueError(f"The judge's verdict cannot be read: {text[:200]!r}") from error
        return self._paid(score)

    def _paid(self, score: float | None) -> dict[str, Any]:
        from resources_servers.indian_banking.core import reward

        task = {**self._task, "evaluation_criteria": self._task.get("evaluation_criteria") or {}}
        store = {reward.WORLD_KEY: self._world, reward.TASK_KEY: task, "nl_history": self._said}
        scores = reward.score_trajectory(store, judge_score=score)
        info = {name: float(scores.get(name) or 0.0) for name in _DETAILS}
        ended = {"terminated": self._terminated, "truncated": not self._terminated}
        return {"seat": 0, "reward": [scores["score"], 0.0, 0.0], "info": info, **ended}


def _decoded(value: Any) -> Any:
    if isinstance(value, str) and value.strip()[:1] in ("[", "{"):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return found if isinstance(found, (list, dict)) else value
    return value


def _is_judged(task: dict[str, Any]) -> bool:
    criteria = task.get("evaluation_criteria") or {}
    return bool(criteria.get("nl_assertions")) and "NL_ASSERTION" in (criteria.get("reward_basis") or ())


def of_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return the task that a row of NeMo Gym has in its own fields."""
    if "customer" not in row or "evaluation_criteria" not in row:
        return {}
    return {"task": {name: row[name] for name in _TASK if name in row}}


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each row of the split, with its own system message."""
    if arguments["task"] is not None:
        return [{}]
    path = _data(arguments["source"], None, f"{arguments['split']}.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [{"task": of_row(row)["task"] | {"input": row["responses_create_params"]["input"]}} for row in rows]


def check(arguments: dict[str, Any]) -> None:
    """Check the arguments when the environment is made.

    Raises:
        ValueError: If the checkout, its data or the customer is missing.
    """
    if arguments["user"] is None:
        raise ValueError("Give `user`, the engine that plays the customer.")
    for name, file in (("db_fpath", "db.json"), ("kb_fpath", "kb.json")):
        _data(arguments["source"], arguments[name], file)


def _folder(source: str) -> Path:
    root = Path(source).expanduser() if source else None
    found = [] if root is None else [each for each in (root / _SERVER, root) if (each / "core" / "engine.py").is_file()]
    if not found:
        raise ValueError(f"source is a checkout of NeMo Gym with {_SERVER}; got {source[:60]!r}.")
    return found[0].resolve()


def _data(source: str, path: str | None, name: str) -> Path:
    file = Path(path).expanduser() if path else _folder(source) / "data" / name
    if not file.is_file():
        raise ValueError(f"{file} is missing: download {name} {_DATA}.")
    return file.resolve()


def _import_from(source: str, *data: Path) -> None:
    """Let Python find NeMo Gym's code in a checkout, and the code its data.

    Raises:
        ValueError: If another checkout, or other data, are in use.
    """
    path = str(_folder(source).parents[1])
    key = "\n".join([path, *map(str, data)])
    if _SOURCES - {key}:
        raise ValueError("This process plays another checkout already: play each in a run of its own.")
    if key not in _SOURCES:
        sys.path.insert(0, path)
        from resources_servers.indian_banking.core import engine

        engine.configure(*map(str, data))
        _SOURCES.add(key)


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    return episode["kwargs"], episode.get("seed")


def utter(action: Any) -> dict[str, Any]:
    """Return the recorded output."""
    return dict(action)
