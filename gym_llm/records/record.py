"""Rollout records: what is written down of an episode, and what may be relied on when it is read again."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, cast

from gym_llm.errors import DataError, InvalidReward
from gym_llm.records.failures import Failure, failure_of
from gym_llm.records.nemo_records import is_nemo_record, rename_nemo_fields
from gym_llm.records.task_identity import task_identity
from gym_llm.records.token_spans import with_copies
from gym_llm.types import Episode, FailureKind, Rollout, RolloutId, TurnTiming

if TYPE_CHECKING:
    from gym_llm.core.verifier_env import VerifierEnv

SCHEMA_VERSION = 5
"""Of the records made here. Version 4 had no `forked_from`. Version 3 had no `seats`. Version 2 had no `made_by`,
`task_key` and `task_sha256`. Version 1 had no `outcome`: a failed episode's reward was 0.0. Those without a version are
version 0, which had no `error_phase`."""

OWN_NAMES = Rollout.__annotations__.keys() - {"responses_create_params"}
"""Of the record's own fields: a task's fields of these names stand in `task_fields`."""

_NEW_NAMES = {
    2: ("outcome", "failure_kind", "traceback", "attempts", "task_fields", "turn_timing", "turn_rewards"),
    3: ("made_by", "task_key", "task_sha256"),
    4: ("seats",),
    5: ("forked_from",),
}
"""By the version that they are new in: in earlier records these are the task's."""


def make_record(
    env: Any,
    *,
    rollout_id: RolloutId,
    turn_rewards: Sequence[float],
    terminated: bool,
    truncated: bool,
    failure: Failure | None = None,
    info: dict[str, Any],
    timing: dict[str, float],
    turn_timing: Sequence[TurnTiming] = (),
    sampling: dict[str, Any] | None = None,
) -> Rollout:
    """The record of the episode that an environment has just played (or failed to).

    The fields are those of `Rollout`. The record shares the episode's items: write it, or copy it, before changing
    anything.

    Args:
        env: The environment.
        rollout_id: Which episode of its run it was.
        turn_rewards: What each step came to; a sum that is not finite masks the episode.
        terminated: Whether it ended by itself.
        truncated: Whether a limit ended it.
        failure: What masks it.
        info: The last step's info.
        timing: Seconds, by name.
        turn_timing: Seconds of each turn.
        sampling: What the driver set over the request's own.
    """
    verifier: VerifierEnv = env.unwrapped
    reward = sum(turn_rewards, 0.0)
    if failure is None and not math.isfinite(reward):  # a wrapper's doing: what `verify` returns is checked there
        error = InvalidReward(f"A reward is a finite number, but the steps of this episode add up to {reward}.")
        failure = failure_of(error, None, verifier.env_id)
    if not _can_be_read(info):  # a wrapper's doing, too
        wrong = TypeError("An info is a dict: `turn` and `tool_errors` are whole numbers, `trajectory` lists dicts.")
        failure = failure or failure_of(wrong, None, verifier.env_id)
        info = {"task_index": rollout_id["task_index"]}
    episode = verifier.episode
    record = {} if episode is None else _fields_of(episode, sampling)
    record.update(
        rollout_id=rollout_id,
        env_id=verifier.env_id,
        outcome="truncated" if truncated else "scored",
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        failure_kind=None,
        error=None,
        error_phase=None,
        traceback=None,
        info={name: value for name, value in info.items() if name != "trajectory"},
        trajectory=info.get("trajectory"),
        timing=timing,
        turn_timing=list(turn_timing),
        schema_version=SCHEMA_VERSION,
    )
    if episode is not None:
        index, tasks = episode.task_index, verifier.tasks
        identity = task_identity(episode.row) if tasks is None else tasks.identity_of(index, episode.row)
        record["task_key"], record["task_sha256"] = identity
    if verifier.tasks is not None and (origin := verifier.tasks.origin_of(rollout_id["task_index"])):
        record["task_source"] = origin
    if (seats := verifier.seat_fields()) and episode is not None:  # empty where it failed before the players sat down
        record["seats"] = seats
        turn_rewards = next(seat for seat in seats.values() if "response" not in seat).get("turn_rewards", ())
    if failure is None:
        if any(turn_rewards[:-1]):
            record["turn_rewards"] = list(turn_rewards)
    else:
        record.update(
            outcome="masked",
            reward=None,
            failure_kind=failure.kind,
            error=failure.reason,
            error_phase=failure.phase,
            traceback=failure.traceback,
            trajectory=info.get("trajectory") or (_trajectory_so_far(env) if episode is not None else None),
        )
        if episode is not None:  # the last step's info is of the one before the step that failed
            record["info"].update(turn=episode.turn, tool_errors=episode.tool_errors)
    return record  # type: ignore[return-value]


def _fields_of(episode: Episode, sampling: dict[str, Any] | None) -> dict[str, Any]:
    """The task's fields, the request and the response."""
    row = episode.row
    fields = dict(row)
    if not OWN_NAMES.isdisjoint(row):
        fields["task_fields"] = {name: fields.pop(name) for name in row if name in OWN_NAMES}
    fields["responses_create_params"] = {**episode.request, **(sampling or {})}
    fields["response"] = response_of(episode)
    return fields


def _trajectory_so_far(env: Any) -> Any:
    try:
        return env.get_wrapper_attr("trajectory_so_far")
    except AttributeError:
        return None


def lost_record(
    env_id: str, rollout_id: tuple[int, int], error: str, failure_kind: FailureKind = "kill_shaped"
) -> Rollout:
    """The record of an episode (its task index and repeat index) of which nothing is left but why."""
    task_index, repeat_index = rollout_id
    return {
        "rollout_id": {"task_index": task_index, "repeat_index": repeat_index},
        "env_id": env_id,
        "outcome": "masked",
        "reward": None,
        "terminated": False,
        "truncated": False,
        "failure_kind": failure_kind,
        "error": error,
        "error_phase": None,
        "traceback": None,
        "info": {"task_index": task_index},
        "trajectory": None,
        "timing": {},
        "schema_version": SCHEMA_VERSION,
    }


def read_record(value: Any) -> Rollout:
    """Check a value from a file and return it as a record of the current version.

    Earlier versions and NeMo Gym's records are accepted. NeMo Gym's ids become `rollout_id`; `mask_sample` masks.

    Args:
        value: The parsed JSON, which becomes the record. Earlier versions wrote no outcome: an episode with an error,
            or without a finite reward, is masked.

    Raises:
        DataError: If the value is not a record, or of a later version. The message is the end of a sentence that names
            the place.

    >>> read_record({"rollout_id": {"task_index": 3, "repeat_index": 0}, "reward": 0.0, "error": "down"})["outcome"]
    'masked'
    """
    return with_copies(check_record(value))


def check_record(value: Any) -> Rollout:
    """Read a record as `read_record` does, but leave token ids in the trajectory, where they are written once."""
    if not isinstance(value, dict):
        raise DataError(f"it is not an object, but of type {type(value).__name__}")
    theirs: dict[str, Any] = {}
    if is_nemo_record(value):
        theirs = rename_nemo_fields(value, {name: holds for name, (holds, _) in _FIELDS.items()}, SCHEMA_VERSION)
    version = value.get("schema_version") if "error_phase" in value else 0  # else it is a task's field
    if version is not None and not _is_count(version):
        raise _refused("schema_version", version, "a whole number")
    if version and version > SCHEMA_VERSION:
        raise DataError(f"its schema_version is {version}, and this gym_llm reads up to {SCHEMA_VERSION}: update it")
    if not {"rollout_id", "reward"} <= value.keys():
        raise DataError("it has no `rollout_id` and `reward`")
    early = (version or 0) < 2
    if theirs or (version or 0) < SCHEMA_VERSION:
        _set_apart(value, version or 0, theirs)
    if early and isinstance(value["reward"], float) and not math.isfinite(value["reward"]):
        value["reward"] = None
    if early or not _is_usual(value):
        for name, (holds, expected) in _FIELDS.items():
            if name in value and not holds(value[name]):
                raise _refused(name, value[name], expected)
    if early:
        _add_outcome(value)
    _check_outcome(value)
    return cast(Rollout, value)


def _is_usual(value: dict[str, Any]) -> bool:
    """Whether a record is valid and has the fields that nearly all have: one expression in place of a loop."""
    get = value.get
    failure_kind, error, traceback = get("failure_kind"), get("error"), get("traceback")
    turn_timing, made_by = get("turn_timing"), get("made_by")
    return (
        type(get("env_id")) is type(get("task_key")) is type(get("task_sha256")) is str
        and type(get("terminated")) is type(get("truncated")) is bool
        and (failure_kind is None or type(failure_kind) is str)
        and (error is None or type(error) is str)
        and (traceback is None or type(traceback) is str)
        and get("error_phase", "") is None
        and type(made_by) is dict
        and {*map(type, made_by.values())} <= _MADE_BY_TYPES
        and type(turn_timing) is list
        and value.keys().isdisjoint(_SELDOM)
        and get("outcome") in _OUTCOMES
        and _is_reward(value["reward"])
        and _is_rollout_id(value["rollout_id"])
        and _is_request(get("responses_create_params"))
        and _is_response(get("response"))
        and _is_info(get("info"))
        and _is_trajectory(get("trajectory"))
        and _is_timing(get("timing"))
        and _is_turn_timing(turn_timing)
    )


def _set_apart(value: dict[str, Any], version: int, theirs: dict[str, Any]) -> None:
    """Move a task's fields of which the names have become the record's own to `task_fields`, in place."""
    newer = [name for since, names in _NEW_NAMES.items() if version < since for name in names if name in value]
    theirs |= {name: value.pop(name) for name in newer}
    if version < 2 and "dataset" in value and not isinstance(value["dataset"], str):
        theirs["dataset"] = value.pop("dataset")
    if theirs and isinstance(fields := value.get("task_fields", {}), dict):
        value["task_fields"] = {**fields, **theirs}


def is_early(record: Any) -> bool:
    """Whether a record is of a version before 2; a `schema_version` without an `error_phase` is the task's."""
    return "error_phase" not in record or (record.get("schema_version") or 0) < 2


def _refused(name: str, value: Any, expected: str) -> DataError:
    try:
        shown = f"{value!r:.80}"
    except Exception:  # nested too deeply, or a number of too many digits
        shown = f"this {type(value).__name__}"
    return DataError(f"its `{name}` cannot be {shown}: expected {expected}")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _is_reward(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and -_FINITE <= value <= _FINITE)


def _is_list_of_rewards(value: Any) -> bool:
    return isinstance(value, list) and all(each is not None and _is_reward(each) for each in value)


def _is_rollout_id(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    task_index = value.get("task_index")
    is_task = type(task_index) is int and -1 <= task_index <= _LARGEST  # -1: it came in `options`
    return is_task and _is_count(value.get("repeat_index"))


def _is_origin(value: Any) -> bool:
    counts = ("turn", "number", "env_seed")
    return (
        isinstance(value, dict)
        and _is_rollout_id(value.get("rollout_id"))
        and all(_is_count(value.get(name)) for name in counts)
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_made_by(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, (str, int)) for each in value.values())


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list_of_dicts(value: Any) -> bool:
    return isinstance(value, list) and not [item for item in value if not isinstance(item, dict)]  # quicker than `all`


def _is_request(value: Any) -> bool:
    return isinstance(value, dict) and (isinstance(said := value.get("input"), str) or _is_list_of_dicts(said))


def _is_response(value: Any) -> bool:
    if not (isinstance(value, dict) and _is_list_of_dicts(value.get("output", []))):
        return False
    usage = value.get("usage") or {}
    if not isinstance(usage, dict):
        return False
    given, generated = usage.get("input_tokens"), usage.get("output_tokens")
    return (given is None or _is_count(given)) and (generated is None or _is_count(generated))


def _is_info(value: Any) -> bool:
    return isinstance(value, dict) and _is_count(value.get("turn", 0)) and _is_count(value.get("tool_errors", 0))


def _can_be_read(info: Any) -> bool:
    if not (isinstance(info, dict) and _is_trajectory(info.get("trajectory"))):
        return False
    return all(isinstance(info.get(name, 0), (int, Integral)) for name in ("turn", "tool_errors"))


def _is_trajectory(value: Any) -> bool:
    return value is None or (_is_list_of_dicts(value) and all(map(_is_segment, value)))


_COLUMNS = ("input_ids", "loss_mask", "logprobs", "rewards", "constrained", "weight_versions")


def _is_segment(value: dict[str, Any]) -> bool:
    columns = [value.get(name) for name in _COLUMNS]
    return len({len(column) for column in columns if isinstance(column, list)}) <= 1  # a wrapper's own may have others


def _are_seats(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(_is_seat, value.values()))


def _is_seat(seat: Any) -> bool:
    if not isinstance(seat, dict) or type(seat.get("trained")) is not bool or not _is_count(seat.get("turns")):
        return False
    optional = {"responses_create_params": _is_request, "response": _is_response, "trajectory": _is_trajectory}
    optional["turn_rewards"] = _is_list_of_rewards
    parts = all(holds(seat[name]) for name, holds in optional.items() if name in seat)
    return parts and type(seat.get("reward")) in _NUMBERS and _is_reward(seat["reward"]) and _is_info(seat.get("info"))


def _is_timing(value: Any) -> bool:
    return isinstance(value, dict) and {*map(type, value.values())} <= _NUMBERS


def _is_turn_timing(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    for turn in value:
        if not isinstance(turn, dict):
            return False
        if type(turn.get("engine")) not in _NUMBERS or type(turn.get("env")) not in _NUMBERS:
            return False
    return True


_NUMBERS = {int, float}
_OUTCOMES = ("scored", "truncated", "masked")
_MADE_BY_TYPES = {str, int}
_SELDOM = ("seats", "forked_from", "dataset", "turn_rewards", "attempts", "task_fields", "task_source")
_LARGEST = 2**63 - 1
_FINITE = sys.float_info.max

_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "rollout_id": (_is_rollout_id, "the whole numbers `task_index` and `repeat_index`"),
    "env_id": (_is_text, "a text"),
    "dataset": (_is_text, "a text"),
    "responses_create_params": (_is_request, "a request with `input`, a text or a list of items"),
    "response": (_is_response, "a response with `output`, a list of items, and whole numbers in `usage`"),
    "outcome": (_OUTCOMES.__contains__, "scored, truncated or masked"),
    "reward": (_is_reward, "a finite number, or null"),
    "terminated": (_is_flag, "true or false"),
    "truncated": (_is_flag, "true or false"),
    "failure_kind": (_is_text_or_none, "a text or null"),
    "error": (_is_text_or_none, "a text or null"),
    "error_phase": (_is_text_or_none, "a text or null"),
    "traceback": (_is_text_or_none, "a text or null"),
    "info": (_is_info, "an object with whole numbers in `turn` and `tool_errors`"),
    "trajectory": (_is_trajectory, "null, or objects with `input_ids`, `loss_mask` and `logprobs` of one length"),
    "turn_rewards": (_is_list_of_rewards, "a list of finite numbers"),
    "attempts": (_is_count, "a whole number"),
    "task_fields": (_is_dict, "an object"),
    "task_source": (_is_dict, "an object"),
    "seats": (_are_seats, "an object of seats with `trained`, `reward`, `turns` and `info`"),
    "forked_from": (_is_origin, "an object with `rollout_id`, `turn`, `number` and `env_seed`"),
    "task_key": (_is_text, "a text"),
    "task_sha256": (_is_text, "a text"),
    "made_by": (_is_made_by, "an object of texts and whole numbers"),
    "timing": (_is_timing, "an object of numbers"),
    "turn_timing": (_is_turn_timing, "a list of objects with the numbers `engine` and `env`"),
}


def _check_outcome(value: dict[str, Any]) -> None:
    """Check that the outcome agrees with the other fields."""
    outcome, masked = value.get("outcome"), value["reward"] is None
    if outcome is None or masked != (outcome == "masked"):
        raise DataError(f"its outcome is {outcome!r}, and its reward {value['reward']!r}")
    if not masked and value.get("error"):
        raise DataError(f"its outcome is {outcome!r}, but it has an error, {value['error']!r:.80}")
    if not masked and "truncated" in value and value["truncated"] != (outcome == "truncated"):
        raise DataError(f"its outcome is {outcome!r}, and its `truncated` {value['truncated']!r}")


def _add_outcome(value: dict[str, Any]) -> None:
    reward, error = value["reward"], value.get("error")
    masked = bool(error) or reward is None
    value["outcome"] = "masked" if masked else "truncated" if value.get("truncated") else "scored"
    value["traceback"] = None
    value["failure_kind"] = None
    if masked:
        value["reward"] = None
        value["error"] = error or "A reward is a finite number, got none."
        value["failure_kind"] = "agent_request_failed" if value.get("error_phase") == "engine" else "verifier_error"


def response_of(episode: Episode) -> dict[str, Any]:
    """Return an episode as one response: all of its items, the usage summed, the rest of the last turn's response."""
    last = episode.last_response
    response: dict[str, Any] = {
        "id": f"resp_{episode.task_index}",
        "object": "response",
        "created_at": 0.0,
        "model": "",
        "status": "completed",
        "incomplete_details": None,
    }
    response.update(last)
    response["output"] = episode.items
    response["usage"] = episode.usage
    return response
