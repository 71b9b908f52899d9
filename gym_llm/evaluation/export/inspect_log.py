"""Inspect AI's `.eval` logs, for its viewer and its analysis (https://inspect.aisi.org.uk/eval-logs.html)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inspect_ai import log as inspect_log
from inspect_ai import model as inspect_model
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall

from gym_llm.errors import UsageError
from gym_llm.evaluation.export.record_conversation import conversation
from gym_llm.records.record import OWN_NAMES
from gym_llm.types import Rollout
from gym_llm.utils.json_codec import loads


def write(records: Iterable[Rollout], output: Path) -> None:
    """Write a log, `.eval` (Inspect's own, small) or `.json` by its name. All samples are in memory meanwhile."""
    if output.suffix not in (".eval", ".json"):
        raise UsageError(f"Inspect reads logs that are called *.eval or *.json, not {output.name}.")
    output.parent.mkdir(parents=True, exist_ok=True)
    inspect_log.write_eval_log(eval_log(records), str(output))


def eval_log(records: Iterable[Rollout]) -> Any:
    """An `EvalLog` of a run: a sample per task, an epoch per repeat.

    The score `reward` is the episode's; parts of it (`reward_components`) are scores of their own. A masked episode has
    no score, and an error; it counts as not completed.
    """
    samples, names, models = [], dict[str, None](), dict[str, None]()
    times: list[float] = []
    for record in records:
        names[record.get("dataset") or record.get("env_id", "")] = None
        model = record.get("response", {}).get("model") or "unknown"  # type: ignore[typeddict-item]
        models[model] = None
        times.append(record.get("response", {}).get("created_at") or 0.0)  # type: ignore[typeddict-item]
        samples.append(_sample(record, model))
    scored = [sample.scores for sample in samples if sample.scores]
    scores = []
    for name in dict.fromkeys(name for each in scored for name in each):
        values = [each[name].value for each in scored if name in each]
        mean = inspect_log.EvalMetric(name="mean", value=sum(values) / len(values))
        scores.append(inspect_log.EvalScore(name=name, scorer=name, metrics={"mean": mean}))
    name = ", ".join(names) or "gym_llm"
    ids = {sample.id for sample in samples}
    return inspect_log.EvalLog(
        status="success",
        eval=inspect_log.EvalSpec(
            created=datetime.now(UTC).isoformat(),
            task=name,
            dataset=inspect_log.EvalDataset(name=name, samples=len(ids), sample_ids=sorted(ids, key=str)),
            model=", ".join(models) or "unknown",
            config=inspect_log.EvalConfig(epochs=max((sample.epoch for sample in samples), default=1)),
        ),
        stats=_stats(samples, times),
        results=inspect_log.EvalResults(total_samples=len(samples), completed_samples=len(scored), scores=scores),
        samples=samples,
    )


def _stats(samples: list[Any], times: list[float]) -> Any:
    """When the run began and ended, by its responses' times (Unix, in seconds; 0 where unknown), and all tokens."""
    known = [time for time in times if time > 0] or [datetime.now(UTC).timestamp()]
    usage: dict[str, Any] = {}
    for sample in samples:
        for model, counts in sample.model_usage.items():
            usage[model] = usage[model] + counts if model in usage else counts
    begun, ended = (datetime.fromtimestamp(time, UTC).isoformat() for time in (min(known), max(known)))
    return inspect_log.EvalStats(started_at=begun, completed_at=ended, model_usage=usage)


def _sample(record: Rollout, model: str) -> Any:
    messages = [chat_message(message) for message in conversation(record)["messages"]]
    given = next((n for n, message in enumerate(messages) if message.role == "assistant"), len(messages))
    info = record.get("info") or {}
    task_index = record["rollout_id"]["task_index"]
    row = {name: value for name, value in record.items() if name not in OWN_NAMES}
    target = row.get("expected_answer")
    usage = record.get("response", {}).get("usage")  # type: ignore[typeddict-item]
    counts = inspect_model.ModelUsage(**usage) if usage else None
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    reason = "max_tokens" if record.get("truncated") else "stop"
    choices = [] if last is None else [inspect_model.ChatCompletionChoice(message=last, stop_reason=reason)]
    scores = None
    if record["reward"] is not None:
        parts = {**(info.get("reward_components") or {}), "reward": record["reward"]}
        answer = info.get("extracted_answer")
        if not isinstance(answer, str):
            answer = last.text if last is not None else ""
        scores = {name: Score(value=value, answer=answer) for name, value in parts.items()}
    error = record.get("error")
    trace = record.get("traceback") or ""
    return inspect_log.EvalSample(
        id=f"{dataset}/{task_index}" if (dataset := record.get("dataset")) else task_index,
        epoch=record["rollout_id"]["repeat_index"] + 1,
        input=messages[:given],
        target=target if isinstance(target, str) else "",
        messages=messages,
        output=inspect_model.ModelOutput(model=model, choices=choices, usage=counts),
        scores=scores,
        metadata={**row, **record.get("task_fields", {}), "outcome": record["outcome"], "info": info},
        model_usage={model: counts} if counts else {},
        total_time=record.get("timing", {}).get("total"),
        error=inspect_log.EvalError(message=error, traceback=trace, traceback_ansi=trace) if error else None,
    )


def chat_message(message: dict[str, Any]) -> Any:
    """Return a chat message as Inspect's."""
    role, content = message["role"], message.get("content")
    parts = _parts(content)
    if role == "assistant":
        if thoughts := message.get("reasoning_content"):
            text = [inspect_model.ContentText(text=parts)] if isinstance(parts, str) else parts
            parts = [inspect_model.ContentReasoning(reasoning=thoughts), *text]
        calls = [_call(call) for call in message.get("tool_calls") or ()]
        return inspect_model.ChatMessageAssistant(content=parts, tool_calls=calls or None)
    if role == "tool":
        return inspect_model.ChatMessageTool(content=parts, tool_call_id=message.get("tool_call_id"))
    return (inspect_model.ChatMessageUser if role == "user" else inspect_model.ChatMessageSystem)(content=parts)


def _call(call: dict[str, Any]) -> Any:
    function, written = call["function"], call["function"]["arguments"]
    try:
        arguments, wrong = loads(written.encode("utf-8", "surrogatepass")), None
    except ValueError as error:
        arguments, wrong = None, str(error)
    if not isinstance(arguments, dict):
        wrong = wrong or "no JSON object"
        arguments = {}
    return ToolCall(
        id=call.get("id") or "",
        function=function["name"] or "",
        arguments=arguments,
        parse_error=wrong and f"{wrong}: {written}",
    )


def _parts(content: Any) -> Any:
    if content is None or isinstance(content, str):
        return content or ""
    parts: list[Any] = []
    for part in content:
        if part.get("type") == "image_url":
            parts.append(inspect_model.ContentImage(image=part["image_url"]["url"]))
        else:
            parts.append(inspect_model.ContentText(text=str(part.get("text", part))))
    return parts
