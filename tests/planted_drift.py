"""Recorded rollouts with one fault each, and sound ones, for the tests of `gym-llm drift`.

The faults were written before the tool. Each takes the records of real episodes of the pocket model and changes what a
faulty sampler, recorder or trainer would change. `FAULTS` has, for each, the cause that the tool has to name.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from testing import POCKET

from gym_llm import collect
from gym_llm.records.token_spans import without_copies
from gym_llm.types import TOKEN_FIELDS

Records = list[dict[str, Any]]
Segment = dict[str, Any]

ENGINE = f"transformers:{POCKET}"


class Case(NamedTuple):
    """A file for the tool, and how the tool is called.

    Attributes:
        records: The records of the file.
        engine: The engine under which the log probabilities are recomputed.
        options: More arguments of `drift_of`.
    """

    records: Records
    engine: str = ENGINE
    options: dict[str, Any] = {}

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps(without_copies(each)) + "\n" for each in self.records))  # type: ignore[arg-type]
        return path


@functools.cache
def played(seed: int = 0, dtype: str = "float32", **sampling: float) -> str:
    """The records of tool and single-turn episodes, as JSON: who changes them gets their own."""
    options = {"engine_options": {"dtype": dtype, "threads": 1, "seed": seed}, "sampling": sampling or None}
    envs = ("gym_llm/Weather-v0", "gym_llm/Arithmetic-v0")
    return json.dumps([each for env in envs for each in collect(env, ENGINE, limit=20, seed=seed, **options)])


@functools.cache
def conversations(seed: int = 0) -> str:
    """The records of episodes in which a user asks again, as JSON; the template drops earlier reasoning."""
    asked = [{"input": f"What is {n} + {n + 3}?"} for n in range(12)]
    rows = [
        {"responses_create_params": request, "follow_ups": ["And the same plus 10?"], "expected_answer": "3"}
        for request in asked
    ]
    path = Path(new_folder(), "tasks.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"engine_options": {"threads": 1}}
    return json.dumps(collect("gym_llm/FollowUp-v0", ENGINE, tasks=str(path), seed=seed, **options))


def records(seed: int = 0, **options: Any) -> Records:
    """Records of their own; see `played`."""
    loaded: Records = json.loads(played(seed, **options))
    return loaded


class Model:
    """The pocket model with all of its probabilities, in float32."""

    def __init__(self, folder: str = POCKET, **options: Any) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, **{"dtype": torch.float32, **options}).eval()

    def logits(self, ids: list[int]) -> np.ndarray:
        """The logits with which each id was sampled, shape (ids, vocabulary); those of the first are 0."""
        import torch

        with torch.inference_mode():
            found = self.model(input_ids=torch.tensor([ids])).logits[0].double().numpy()
        return np.concatenate([np.zeros((1, found.shape[1])), found[:-1]])


_folders: list[Any] = []


def new_folder() -> str:
    """A folder that goes with the process."""
    _folders.append(tempfile.TemporaryDirectory(prefix="planted_drift_"))
    return str(_folders[-1].name)


@functools.cache
def model() -> Model:
    return Model()


@functools.cache
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(POCKET)


def encode(text: str) -> list[int]:
    return list(tokenizer().encode(text, add_special_tokens=False))


def decode(ids: list[int]) -> str:
    return str(tokenizer().decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits - logits.max(-1, keepdims=True)
    found: np.ndarray = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return found


def segments(of: Records) -> list[Segment]:
    return [segment for record in of for segment in record["trajectory"] or ()]


def spans(segment: Segment) -> list[tuple[int, int]]:
    """The (start, end) of each run of sampled ids."""
    edges = np.flatnonzero(np.diff([0, *segment["loss_mask"], 0]))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def bare(found: Records) -> Records:
    """Drop the token fields of the items: the trajectory alone has been changed."""
    for record in found:
        for item in record["response"]["output"]:
            for name in TOKEN_FIELDS:
                item.pop(name, None)
    return found


def each(change: Callable[[Segment], None], found: Records | None = None, **options: Any) -> Case:
    found = records() if found is None else found
    for segment in segments(found):
        change(segment)
    return Case(bare(found), **options)


def rescored(logits_of: Callable[[np.ndarray], np.ndarray], found: Records | None = None) -> Case:
    """Record the log probabilities of changed logits; episodes with a token that these forbid are left out."""
    kept = []
    for record in records() if found is None else found:
        is_possible = True
        for segment in record["trajectory"]:
            ids = segment["input_ids"]
            every = log_softmax(logits_of(model().logits(ids)))[np.arange(len(ids)), ids]
            mask = np.array(segment["loss_mask"]) == 1
            is_possible &= bool(np.isfinite(every[mask]).all())
            segment["logprobs"] = np.where(mask, every, 0.0).tolist()
        kept += [record] if is_possible else []
    return Case(bare(kept))


def top_p(logits: np.ndarray, limit: float) -> np.ndarray:
    probabilities = np.exp(log_softmax(logits))
    order = np.argsort(-probabilities, axis=-1)
    ordered = np.take_along_axis(probabilities, order, -1)
    outside = np.cumsum(ordered, -1) - ordered >= limit
    mask = np.zeros_like(outside)
    np.put_along_axis(mask, order, outside, -1)
    return np.where(mask, -np.inf, logits)


def top_k(logits: np.ndarray, count: int) -> np.ndarray:
    return np.where(logits < np.sort(logits, -1)[:, -count][:, None], -np.inf, logits)


def shift(column: list[Any], by: int, blank: Any) -> list[Any]:
    return [blank] * by + column[:-by] if by > 0 else column[-by:] + [blank] * -by


# The faults


def mask_right() -> Case:
    def change(segment: Segment) -> None:
        segment["loss_mask"] = shift(segment["loss_mask"], 1, 0)

    return each(change)


def columns_left() -> Case:
    """The log probabilities and the mask are those of the next position: of the logits, not of the tokens."""

    def change(segment: Segment) -> None:
        segment["loss_mask"] = shift(segment["loss_mask"], -1, 0)
        segment["logprobs"] = shift(segment["logprobs"], -1, 0.0)

    return each(change)


def first_token_missing() -> Case:
    def change(segment: Segment) -> None:
        for start, _ in spans(segment):
            segment["loss_mask"][start], segment["logprobs"][start] = 0, 0.0

    return each(change)


def tool_output_sampled() -> Case:
    def change(segment: Segment) -> None:
        turns = spans(segment)
        for (_, end), (start, _) in itertools.pairwise(turns):
            segment["loss_mask"][end:start] = [1] * (start - end)

    return each(change, [record for record in records() if len(spans(record["trajectory"][0])) > 1])


def temperature_unrecorded() -> Case:
    """Sampled at 0.7 with those log probabilities, but the request in the record says 1."""
    case = rescored(lambda logits: logits / 0.7, records(temperature=0.7))
    for record in case.records:
        record["responses_create_params"]["temperature"] = 1.0
    return case


def temperature_not_applied() -> Case:
    """Sampled at 0.7, as the request says, but the log probabilities are those before the temperature."""
    found = records(temperature=0.7)
    for record in found:
        record["responses_create_params"]["temperature"] = 0.7
    return Case(bare(found))


def top_p_renormalised() -> Case:
    case = rescored(lambda logits: top_p(logits, 0.9), records(top_p=0.9))
    for record in case.records:
        record["responses_create_params"].pop("top_p", None)
    return case


def top_k_renormalised() -> Case:
    return rescored(lambda logits: top_k(logits, 3))


def low_precision(dtype: str) -> Case:
    return Case(records(dtype=dtype))


@functools.cache
def trained(steps: int, rate: float) -> str:
    """The folder of the pocket model after some updates towards its own episodes with a reward."""
    import torch

    after = Model().model.train()
    optimizer = torch.optim.AdamW(after.parameters(), lr=rate)
    torch.manual_seed(0)
    rows = [s for record in records() for s in record["trajectory"] if record["reward"]]
    for step in range(steps):
        for segment in rows[step % 4 :: 4]:
            ids = torch.tensor([segment["input_ids"]])
            labels = torch.where(torch.tensor([segment["loss_mask"]]) == 1, ids, -100)
            (after(input_ids=ids, labels=labels).loss / len(rows[step % 4 :: 4])).backward()
        optimizer.step()
        optimizer.zero_grad()
    folder = new_folder()
    after.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def stale(steps: int, rate: float) -> Case:
    return Case(records(), f"transformers:{trained(steps, rate)}", {"checkpoints": [ENGINE]})


def half_stale() -> Case:
    """In the midst of the run new weights came; the versions say that they had sampled everything."""
    folder = trained(3, 1e-3)
    after, found = Model(folder), records()
    for record in found[1::2]:
        for segment in record["trajectory"]:
            ids = segment["input_ids"]
            new = log_softmax(after.logits(ids))[np.arange(len(ids)), ids]
            segment["logprobs"] = np.where(np.array(segment["loss_mask"]) == 1, new, 0.0).tolist()
    for segment in segments(found):
        segment["weight_versions"] = segment["loss_mask"]
    return Case(bare(found), f"transformers:{folder}", {"checkpoints": [ENGINE]})


@functools.cache
def adapter() -> str:
    """The folder of a LoRA adapter over the pocket model."""
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    with_adapter = get_peft_model(Model().model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    for name, weight in with_adapter.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.01)
    folder = new_folder()
    with_adapter.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    config = Path(folder, "adapter_config.json")
    config.write_text(json.dumps({**json.loads(config.read_text()), "base_model_name_or_path": POCKET}))
    return folder


def adapter_missing() -> Case:
    """The trainer has an adapter that the sampler was never given."""
    return Case(records(), engine=f"transformers:{adapter()}")


def retokenised() -> Case:
    """Turns are split otherwise than the tokenizer would; the row has the tokenizer's own ids of their text."""
    found = records()
    for segment in segments(found):
        start, end = spans(segment)[-1]
        ids, sampled = segment["input_ids"], segment["input_ids"][start:end]
        split: list[int] = []
        for token in sampled:
            text = decode([token])
            half = [*encode(text[: len(text) // 2]), *encode(text[len(text) // 2 :])] if len(text) > 4 else []
            split += half if half and token < 1000 and len(split) % 3 else [token]
        before = [*ids[:start], *split]
        own = log_softmax(model().logits(before))[np.arange(len(before)), before][start:].tolist()
        segment["logprobs"][start:end] = (own + [0.0] * len(sampled))[: len(sampled)]
    return Case(bare(found))


def template_drift(found: Records, prompt_of: Callable[[str], str], keep: Callable[[str], str] = str) -> Case:
    """The sampler read another prompt than the one that the row has."""
    for segment in segments(found):
        ids, (start, _) = segment["input_ids"], spans(segment)[0]
        text = decode(ids[:start])
        read, written = encode(prompt_of(text)), encode(keep(text))
        seen = read + ids[start:]
        own = log_softmax(model().logits(seen))[np.arange(len(seen)), seen][len(read) :]
        mask = segment["loss_mask"][start:]
        segment["input_ids"] = written + ids[start:]
        segment["loss_mask"] = [0] * len(written) + mask
        segment["logprobs"] = [0.0] * len(written) + np.where(np.array(mask) == 1, own, 0.0).tolist()
    return Case(bare(found))


def system_prompt_lost() -> Case:
    """The request has a system message, which the sampler read and the row lacks."""
    found = records()
    system = {"role": "system", "content": "Answer in French, and be very brief."}
    for record in found:
        request = record["responses_create_params"]
        request["input"] = [system, *request["input"]]

    def with_system(text: str) -> str:
        start = "<|im_start|>system\n"
        if text.startswith(start):
            return f"{start}{system['content']}\n\n{text.removeprefix(start)}"
        return f"{start}{system['content']}<|im_end|>\n{text}"

    return template_drift(found, with_system)


def prompt_whitespace() -> Case:
    """The sampler's template writes a line less behind the start of the model's turn."""
    return template_drift(records(), lambda text: text.removesuffix("\n"))


def reasoning_kept() -> Case:
    """The sampler's template dropped earlier reasoning; the row goes on with it."""
    found = json.loads(conversations())
    for record in found:
        first, *more = record["trajectory"]
        for segment in more:
            start, end = spans(segment)[0]
            between = decode(segment["input_ids"][:start]).rpartition("<|im_start|>user\n")
            ids = encode("\n" + between[1] + between[2])
            first["input_ids"] = first["input_ids"] + ids + segment["input_ids"][start:end]
            first["loss_mask"] = first["loss_mask"] + [0] * len(ids) + [1] * (end - start)
            first["logprobs"] = first["logprobs"] + [0.0] * len(ids) + segment["logprobs"][start:end]
        record["trajectory"] = [first]
    return Case(bare(found))


def special_tokens_dropped() -> Case:
    marks = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")

    def without(text: str) -> str:
        for mark in marks:
            text = text.replace(mark, "")
        return text

    return template_drift(records(), str, without)


def vocabulary_truncated() -> Case:
    """The sampler could not sample the last third of the ordinary tokens."""
    allowed = np.ones(1024, bool)
    allowed[600:1000] = False
    used = [token for record in records() for s in record["trajectory"] for token in s["input_ids"]]
    allowed[[token for token in set(used) if used.count(token) > 3]] = True
    return rescored(lambda logits: np.where(allowed, logits, -np.inf))


def shuffled() -> Case:
    """Each row has the log probabilities of another."""
    found = records()
    rows = segments(found)
    columns = [[value for value, used in zip(s["logprobs"], s["loss_mask"], strict=True) if used] for s in rows]
    for segment, values in zip(rows, columns[1:] + columns[:1], strict=True):
        places = [n for n, used in enumerate(segment["loss_mask"]) if used]
        for place, value in zip(places, values + [-0.5] * len(places), strict=False):
            segment["logprobs"][place] = value
    return Case(bare(found))


def base_2() -> Case:
    def change(segment: Segment) -> None:
        segment["logprobs"] = [value / float(np.log(2)) for value in segment["logprobs"]]

    return each(change)


FAULTS: dict[str, tuple[str, Callable[[], Case]]] = {
    "mask one to the right": ("mask off by one", mask_right),
    "columns one to the left": ("mask off by one", columns_left),
    "first token missing": ("mask off by one", first_token_missing),
    "tool output sampled": ("tool output in mask", tool_output_sampled),
    "temperature 0.7 not recorded": ("temperature", temperature_unrecorded),
    "log probabilities before the temperature": ("temperature", temperature_not_applied),
    "top-p 0.9 renormalised": ("top-p renormalisation", top_p_renormalised),
    "top-k 3 renormalised": ("top-k renormalisation", top_k_renormalised),
    "bfloat16": ("dtype", functools.partial(low_precision, "bfloat16")),
    "float16": ("dtype", functools.partial(low_precision, "float16")),
    "one update old": ("stale weights", functools.partial(stale, 1, 3e-4)),
    "several updates old": ("stale weights", functools.partial(stale, 4, 5e-4)),
    "half of the tokens stale": ("stale weights", half_stale),
    "adapter missing": ("wrong adapter", adapter_missing),
    "retokenised": ("retokenised turn", retokenised),
    "system prompt lost": ("template drift", system_prompt_lost),
    "reasoning kept": ("template drift", reasoning_kept),
    "special tokens dropped": ("special tokens", special_tokens_dropped),
    "vocabulary truncated": ("truncated vocabulary", vocabulary_truncated),
    "base 2": ("log base", base_2),
}
"""By name: the cause that the tool has to give, and a function that makes the file."""


def rewritten_calls(**written: Any) -> Case:
    """The recorder wrote the calls of earlier turns in JSON of its own; the last turns are trained on."""
    found = [record for record in records() if len(spans(record["trajectory"][0])) > 1]

    def change(segment: Segment) -> None:
        *earlier, (start, _) = spans(segment)
        segment["loss_mask"] = [0] * start + segment["loss_mask"][start:]
        segment["logprobs"] = [0.0] * start + segment["logprobs"][start:]
        for first, end in reversed(earlier):
            text = decode(segment["input_ids"][first:end])
            ids = encode(re.sub(r"\{.*\}", lambda call: json.dumps(json.loads(call.group()), **written), text))
            for name, column in (("input_ids", ids), ("loss_mask", [0] * len(ids)), ("logprobs", [0.0] * len(ids))):
                segment[name][first:end] = column

    return each(change, found)


def other_rope() -> Case:
    """The sampler turned its queries and keys by other angles."""
    sampler = Model()
    sampler.model.model.rotary_emb.inv_freq *= 0.5
    found = records()
    for segment in segments(found):
        ids = segment["input_ids"]
        every = log_softmax(sampler.logits(ids))[np.arange(len(ids)), ids]
        segment["logprobs"] = np.where(np.array(segment["loss_mask"]) == 1, every, 0.0).tolist()
    return Case(bare(found))


MORE_FAULTS: dict[str, tuple[str, Callable[[], Case]]] = {
    "a line less": ("template drift", prompt_whitespace),
    "shuffled rows": ("shuffled rows", shuffled),
    "calls without spaces": ("template drift", lambda: rewritten_calls(separators=(",", ":"))),
    "other rope": ("unknown", other_rope),
    "weights that are not named": ("unknown", lambda: stale(1, 3e-4)._replace(options={})),
}
"""More than were asked for."""


def noisy(case: Case, noise: float) -> Case:
    rng = np.random.default_rng(0)
    for segment in segments(case.records):
        mask = segment["loss_mask"]
        values = np.array(segment["logprobs"]) + rng.normal(0, noise, len(mask)) * np.array(mask)
        segment["logprobs"] = np.minimum(values, 0.0).tolist()
    return Case(bare(case.records), case.engine, case.options)


def processed(temperature: float) -> Case:
    """Log probabilities at the temperature of the request."""
    case = rescored(lambda logits: logits / temperature, records(temperature=temperature))
    for record in case.records:
        record["responses_create_params"]["temperature"] = temperature
    return case


def versions() -> Case:
    """The new weights sampled what is labelled so; the old episodes are not there any more."""
    folder = trained(1, 3e-4)
    after, found = Model(folder), records()
    for segment in segments(found):
        ids = segment["input_ids"]
        new = log_softmax(after.logits(ids))[np.arange(len(ids)), ids]
        segment["logprobs"] = np.where(np.array(segment["loss_mask"]) == 1, new, 0.0).tolist()
        segment["weight_versions"] = segment["loss_mask"]
    return Case(bare(found), engine=f"transformers:{folder}")


def only(env: str, seed: int) -> Case:
    return Case([record for record in records(seed) if record["env_id"].startswith(f"gym_llm/{env}")])


SOUND: dict[str, Callable[[], Case]] = {
    **{f"seed {seed}": functools.partial(lambda seed: Case(records(seed)), seed) for seed in (0, 1, 2)},
    **{f"Weather, seed {seed}": functools.partial(only, "Weather", seed) for seed in (0, 1, 2)},
    **{f"Arithmetic, seed {seed}": functools.partial(only, "Arithmetic", seed) for seed in (0, 1, 2)},
    "conversations": lambda: Case(json.loads(conversations())),
    "items without a trajectory's copies": lambda: Case(bare(records(1))),
    "temperature 0.7": functools.partial(processed, 0.7),
    "temperature 1.2": functools.partial(processed, 1.2),
    "noise of 1e-6": lambda: noisy(Case(records(1)), 1e-6),
    "noise of 1e-5": lambda: noisy(Case(records()), 1e-5),
    "noise of 1e-5 at temperature 0.7": lambda: noisy(processed(0.7), 1e-5),
    "new weights, labelled": versions,
    "the pocket engine": lambda: Case(records(2), engine="pocket"),
    "few episodes": lambda: Case(copy.deepcopy(records(1)[:3])),
    "an adapter on both sides": lambda: Case(_adapted(), engine=f"transformers:{adapter()}"),
}
"""Runs in which sampler and trainer agree."""


def _adapted() -> Records:
    options = {"engine_options": {"threads": 1}}
    return [dict(each) for each in collect("gym_llm/Arithmetic-v0", f"transformers:{adapter()}", limit=20, **options)]
