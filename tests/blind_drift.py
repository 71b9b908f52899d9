"""Ten faulty and five sound files for a blind test of `gym-llm drift`.

Whoever wrote them had read the command's page and `planted_drift`, and not its source. The causes were written down
before the command was run, and neither was changed afterwards.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import planted_drift as planted
from planted_drift import ENGINE, Case, Records, Segment, bare, decode, each, encode, records, segments, spans

from gym_llm import collect


def scored(ids: list[int], logits: np.ndarray, mask: Sequence[int]) -> list[float]:
    """The log probabilities of ids under logits, where the mask is 1."""
    every = planted.log_softmax(logits)[np.arange(len(ids)), ids]
    found: list[float] = np.where(np.array(mask) == 1, every, 0.0).tolist()
    return found


def played(env: str, seed: int, engine: str = ENGINE, **options: Any) -> Records:
    options = {"engine_options": {"threads": 1}, "seed": seed, **options}
    return [dict(record) for record in collect(env, engine, **options)]


# The faults


def later_turns_moved() -> Case:
    """From the second turn on, the mask and the log probabilities begin one token early."""

    def change(segment: Segment) -> None:
        for start, end in spans(segment)[1:]:
            for name, blank in (("loss_mask", 0), ("logprobs", 0.0)):
                segment[name][start - 1 : end] = [*segment[name][start:end], blank]

    return each(change)


def hot(seed: int, count: int = 1024) -> Case:
    """Sampled at 1.3, as the request says, among the best tokens, whose count it does not say."""
    case = planted.rescored(lambda logits: planted.top_k(logits / 1.3, count), records(seed, temperature=1.3))
    for record in case.records:
        record["responses_create_params"]["temperature"] = 1.3
    return case


def groups_swapped() -> Case:
    """In every second group, the two answers to a task have each other's log probabilities."""
    found = played("gym_llm/Arithmetic-v0", 8, limit=24, repeats=2)
    for record, other in list(zip(found[::2], found[1::2], strict=True))[::2]:
        a, b = record["trajectory"][0], other["trajectory"][0]
        values = [[v for v, used in zip(s["logprobs"], s["loss_mask"], strict=True) if used] for s in (a, b)]
        for segment, of_other in ((a, values[1]), (b, values[0])):
            places = np.flatnonzero(segment["loss_mask"]).tolist()
            for place, value in zip(places, of_other + [0.0] * len(places), strict=False):
                segment["logprobs"][place] = value
    return Case(bare(found))


def tool_content_sampled() -> Case:
    """Every second row learns what the tool said, without the frame around it, with a scorer's log probabilities."""
    found = [record for record in records(2) if record["env_id"].startswith("gym_llm/Weather")]
    for segment in segments(found)[::2]:
        (_, end), (start, _) = spans(segment)[:2]
        is_inside = False
        for place in range(end, start):
            text = decode([segment["input_ids"][place]])
            is_inside = (is_inside or text.startswith("{")) and text != "</tool_response>"
            segment["loss_mask"][place] = int(is_inside)
        ids = segment["input_ids"]
        segment["logprobs"] = scored(ids, planted.model().logits(ids), segment["loss_mask"])
    return Case(bare(found))


def end_tokens_missing() -> Case:
    """The rows lack the token that ends a turn, in each of the model's turns."""

    def change(segment: Segment) -> None:
        for start, end in reversed(spans(segment)):
            if end > start and decode([segment["input_ids"][end - 1]]) == "<|im_end|>":
                for name in ("input_ids", "loss_mask", "logprobs"):
                    del segment[name][end - 1]

    return each(change, records(1))


def other_date() -> Case:
    """The request's system message has the day of sampling, the row that of training."""
    said = "You are a helpful assistant. Today is 2026-11-{}."
    found = records(1)
    for record in found:
        request = record["responses_create_params"]
        request["input"] = [{"role": "system", "content": said.format(26)}, *request["input"]]

    def on(day: int, text: str) -> str:
        start = "<|im_start|>system\n"
        if text.startswith(start):
            return f"{start}{said.format(day)}\n\n{text.removeprefix(start)}"
        return f"{start}{said.format(day)}<|im_end|>\n{text}"

    return planted.template_drift(found, functools.partial(on, 26), functools.partial(on, 27))


def tool_output_by_words() -> Case:
    """The row has the ids of the tool's answer word by word; the sampler read those of the whole text."""

    def change(segment: Segment) -> None:
        for (_, end), (start, _) in itertools.pairwise(spans(segment)[:2]):
            before, mark, rest = decode(segment["input_ids"][end:start]).partition("<tool_response>\n")
            said, *after = rest.partition("\n</tool_response>")
            words = [token for word in re.findall(r"\w+|\W", said) for token in encode(word)]
            read = [*encode(before + mark), *words, *encode("".join(after))]
            for name, put in (("input_ids", read), ("loss_mask", [0] * len(read)), ("logprobs", [0.0] * len(read))):
                segment[name][end:start] = put

    return each(change)


def head_in_bfloat16() -> Case:
    """The sampler computes its last layer in bfloat16, all others in float32."""
    import torch

    network = planted.model().model

    def change(segment: Segment) -> None:
        ids = segment["input_ids"]
        with torch.inference_mode():
            hidden = network.model(input_ids=torch.tensor([ids])).last_hidden_state[0].bfloat16()
            logits = (hidden @ network.lm_head.weight.T.bfloat16()).double().numpy()
        segment["logprobs"] = scored(ids, np.concatenate([logits[:1] * 0, logits[:-1]]), segment["loss_mask"])

    return each(change)


def adapter_of_other_scale() -> Case:
    """The sampler divides the adapter's scale by the root of the rank, the trainer by the rank."""
    folder = Path(shutil.copytree(planted.adapter(), planted.new_folder(), dirs_exist_ok=True))
    config = folder / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "use_rslora": True}))
    found = played("gym_llm/Arithmetic-v0", 9, f"transformers:{folder}", limit=24)
    return Case(found, f"transformers:{planted.adapter()}")


def one_small_update() -> Case:
    return Case(records(3), f"transformers:{planted.trained(1, 1e-4)}", {"checkpoints": [planted.ENGINE]})


BLIND_FAULTS: dict[str, tuple[str, Callable[[], Case]]] = {
    "later turns moved": ("mask off by one", later_turns_moved),
    "top-k 5 at temperature 1.3": ("top-k renormalisation", lambda: hot(0, 5)),
    "groups swapped": ("shuffled rows", groups_swapped),
    "content of tools sampled": ("tool output in mask", tool_content_sampled),
    "end tokens missing": ("special tokens", end_tokens_missing),
    "other date": ("template drift", other_date),
    "tool output by words": ("retokenised turn", tool_output_by_words),
    "last layer in bfloat16": ("dtype", head_in_bfloat16),
    "one small update": ("stale weights", one_small_update),
    "adapter of another scale": ("wrong adapter", adapter_of_other_scale),
}
"""By name: the cause that was expected, and a function that makes the file."""


# Sound


def three_turns() -> Case:
    path = Path(planted.new_folder(), "tasks.jsonl")
    asked = [{"input": f"What is {n + 20} - {n}?"} for n in range(8)]
    more = {"follow_ups": ["And the same plus 7?", "And what is that minus 2?"], "expected_answer": "25"}
    path.write_text("".join(json.dumps({"responses_create_params": request, **more}) + "\n" for request in asked))
    return Case(played("gym_llm/FollowUp-v0", 4, tasks=str(path)))


def warm_up() -> Case:
    """Two weight versions, of which the later update changed nothing: its learning rate was 0."""
    folder = planted.trained(1, 1e-4)
    after, found = planted.Model(folder), records(4)
    for number, segment in enumerate(segments(found)):
        ids, mask = segment["input_ids"], segment["loss_mask"]
        segment["logprobs"] = scored(ids, after.logits(ids), mask)
        segment["weight_versions"] = [(2 if number < 20 else 3) * used for used in mask]
    return Case(bare(found), engine=f"transformers:{folder}")


BLIND_SOUND: dict[str, Callable[[], Case]] = {
    "cut off": lambda: Case(played("gym_llm/Counter-v0", 5, limit=10, sampling={"max_output_tokens": 24})),
    "three turns": three_turns,
    "two versions of equal weights": warm_up,
    "rounded to 5 decimals": lambda: each(lambda s: s.update(logprobs=np.round(s["logprobs"], 5).tolist()), records(6)),
    "temperature 1.3": lambda: hot(3),
}
"""Runs in which sampler and trainer agree."""
