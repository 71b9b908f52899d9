"""The results of a session in OpenEnv's format (0.10, `openenv.core.harness.capture`)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gym_llm.agents.capture.call_graph import Sample
from gym_llm.agents.capture.capture_session import CaptureSession
from gym_llm.protocols.chat.completions import response_to_chat
from gym_llm.protocols.chat.requests import request_to_chat


def trace_entries(session: CaptureSession) -> list[dict[str, Any]]:
    """Return one entry for each sample of the policy: its prompt, its tokens, and a mask over both.

    OpenEnv's `TrainingTrace.from_entries` and TRL's `HarnessRolloutWorker` read them.
    """
    return [_entry(sample, number) for number, sample in enumerate(session.graph.samples)]


def rollout_document(session: CaptureSession, *, include_messages: bool = False) -> dict[str, Any]:
    """Return the session as OpenEnv's `/rollout` has it: `sequences`, one for each branch, and all `turns`.

    Args:
        session: The session.
        include_messages: Whether each turn has its messages.
    """
    samples = session.graph.samples
    names = {id(sample): _name(number) for number, sample in enumerate(samples)}
    sequences = _sequences(session, names)
    roots: dict[int, str] = {}
    for sample in samples:  # a parent comes before its children
        roots[id(sample)] = names[id(sample)] if sample.parent is None else roots[id(sample.parent)]
    turns = [
        {
            "node_id": names[id(sample)],
            "index": number,
            "root_id": roots[id(sample)],
            "n_sampled": len(sample.log_probs),
            "n_prompt": sample.start,
            "n_tools": len(sample.call.request.get("tools") or ()),
            "model": sample.call.model,
            **(_said(sample) if include_messages else {}),
        }
        for number, sample in enumerate(samples)
    ]
    is_train = session.graph.has_tokens and session.metadata.get("purpose") != "eval"
    return {
        "session_id": session.id,
        "metadata": session.metadata,
        "budget_stop_count": session.budget_stops,
        "turns": turns,
        "stats": {
            "n_turns": len(samples),
            "n_roots": sum(sample.parent is None for sample in samples),
            "n_forks": sum(sample.children > 1 for sample in samples),
            "n_discarded": 0,
            "n_calls": len(session.calls),
            "calls": dict(Counter(call.status for call in session.calls)),
            "n_sequences": len(sequences),
            "n_trainable_sequences": sum(sequence["trainable"] for sequence in sequences),
            "n_trainable_tokens": sum(sequence["n_trainable"] for sequence in sequences),
        },
        "sequences": sequences,
        "validation": [],
        "trainable": is_train and any(sequence["trainable"] for sequence in sequences),
        "capture_level": "tokens" if session.graph.has_tokens else "text",
        "rollout_type": "train" if is_train else "eval",
    }


def _sequences(session: CaptureSession, names: dict[int, str]) -> list[dict[str, Any]]:
    leaves = [sample for sample in session.graph.samples if not sample.children]
    sequences = []
    for leaf, branch in zip(leaves, session.trajectory() or (), strict=True):
        path = _path(leaf)
        trained = sum(branch["loss_mask"])
        sequences.append(
            {
                "role": "agent",
                "root_id": names[id(path[0])],
                "node_ids": [names[id(sample)] for sample in path],
                "n_turns": len(path),
                "prompt_len": path[0].start,
                "n_trainable": trained,
                "turn_lengths": [len(sample.log_probs) for sample in path],
                **branch,
                "trainable": trained > 0,
                "validation": [],
            }
        )
    return sequences


def _entry(sample: Sample, number: int) -> dict[str, Any]:
    prompt, sampled, log_probs = sample.prompt_ids, sample.sampled_ids, sample.log_probs.tolist()
    said = _said(sample)
    choice = {"message": said["response_message"], "finish_reason": said["finish_reason"]}
    return {
        "request": {"messages": said["request_messages"], "tools": said["request_tools"]},
        "response": {"choices": [choice]},
        "prompt_token_ids": prompt,
        "completion_token_ids": sampled,
        "per_token_logps": log_probs,
        "loss_mask": [0] * len(prompt) + [1] * len(sampled),
        "metadata": {
            "node_id": _name(number),
            "index": number,
            "model": sample.call.model,
            "n_tools": len(sample.call.request.get("tools") or ()),
            "harness_session_id": None,
            "sampling_params": _sampling_of(sample),
            "requested_sampling_params": _sampling_of(sample),
        },
    }


def _said(sample: Sample) -> dict[str, Any]:
    call = sample.call
    chat = request_to_chat(call.request)
    completion = response_to_chat(call.response) if call.response is not None else {"choices": [{}]}
    choice = completion["choices"][0]
    return {
        "request_messages": chat["messages"],
        "request_tools": chat.get("tools"),
        "response_message": choice.get("message", {"role": "assistant", "content": ""}),
        "finish_reason": choice.get("finish_reason", "stop"),
    }


def _sampling_of(sample: Sample) -> dict[str, Any]:
    names = ("temperature", "top_p", "top_k", "min_p")
    return {name: sample.call.request[name] for name in names if name in sample.call.request}  # type: ignore[literal-required]


def _path(leaf: Sample) -> list[Sample]:
    path, sample = [leaf], leaf.parent
    while sample is not None:
        path.append(sample)
        sample = sample.parent
    return path[::-1]


def _name(number: int) -> str:
    return f"call-{number}"
