"""Ten faults of training stacks, and five sound files, for a second blind test of `gym-llm drift`.

They were written and committed before their author read how the command ranks causes. Unlike those of `blind_drift`,
they are faults between two programs: a server and a trainer, a checkpoint and a cache. Some files are TRL's. Two sound
files were made anew afterwards: their first tokens had not been sampled from the model that the file names.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable

import planted_drift as planted
from blind_drift import played, scored
from planted_drift import ENGINE, Case, Records, Segment, bare, decode, each, encode, records, segments, spans


def as_trl(found: Records) -> Records:
    """The rows of `rollout_func`, which have no requests."""
    rows = []
    for segment in segments(found):
        ids, mask, start = segment["input_ids"], segment["loss_mask"], spans(segment)[0][0]
        columns = {"logprobs": segment["logprobs"][start:], "env_mask": mask[start:]}
        rows.append({"prompt_ids": ids[:start], "completion_ids": ids[start:], **columns})
    return rows


def rescore(segment: Segment, model: planted.Model | None = None) -> None:
    ids, mask = segment["input_ids"], segment["loss_mask"]
    segment["logprobs"] = scored(ids, (model or planted.model()).logits(ids), mask)


# The faults


def temperature_twice() -> Case:
    """A logits processor divides by the request's temperature, and the sampler does so again."""
    case = planted.rescored(lambda logits: logits / 0.8**2, records(1, temperature=0.64))
    for record in case.records:
        record["responses_create_params"]["temperature"] = 0.8
    return case


def bos_of_the_server() -> Case:
    """The server begins a prompt with a token that the template has not; the rows are TRL's."""
    found = records(2)
    for segment in segments(found):
        read = [planted.tokenizer().convert_tokens_to_ids("<|endoftext|>"), *segment["input_ids"]]
        segment["logprobs"] = scored(read, planted.model().logits(read), [0, *segment["loss_mask"]])[1:]
    return Case(as_trl(found))


def tools_lost() -> Case:
    """The trainer renders the conversation without its tools."""
    found = [record for record in records(1) if record["env_id"].startswith("gym_llm/Weather")]
    return planted.template_drift(found, str, lambda text: text[text.index("<|im_start|>user") :])


def reasoning_stripped() -> Case:
    """The sampler went on from all it had said; the trainer's template drops the reasoning of the first turn."""
    found = json.loads(planted.conversations(1))
    for record in found:
        for before, segment in itertools.pairwise(record["trajectory"]):
            ids, start = segment["input_ids"], spans(segment)[0][0]
            _, mark, asked = decode(ids[:start]).rpartition("<|im_start|>user\n")
            seen = [*before["input_ids"], *encode("\n" + mark + asked)]
            row = [*seen, *ids[start:]]
            values = scored(row, planted.model().logits(row), [0] * len(seen) + segment["loss_mask"][start:])
            segment["logprobs"] = [0.0] * start + values[len(seen) :]
    return Case(bare(found))


@functools.cache
def padded() -> str:
    """The folder of the pocket model with 3,072 more rows of embeddings, which are 0."""
    import torch

    network = planted.Model().model
    network.resize_token_embeddings(4096, mean_resizing=False)
    torch.nn.init.zeros_(network.lm_head.weight.data[1024:])
    folder = planted.new_folder()
    network.save_pretrained(folder)
    planted.tokenizer().save_pretrained(folder)
    return folder


def line_after_a_turn() -> Case:
    """The mask of a turn, but the last, ends one token late: it has the template's line behind the end token."""

    def change(segment: Segment) -> None:
        for _, end in spans(segment)[:-1]:
            segment["loss_mask"][end] = 1
        rescore(segment)

    found = [record for record in records(3) if record["env_id"].startswith("gym_llm/Weather")]
    return each(change, found)


def base_for_every_second_request() -> Case:
    """A server forgets the adapter of every second request, and answers with the base model."""
    found = played("gym_llm/Arithmetic-v0", 11, f"transformers:{planted.adapter()}", limit=24)
    for segment in segments(found)[::2]:
        rescore(segment)
    return Case(bare(found), f"transformers:{planted.adapter()}")


def cache_in_8_bits() -> Case:
    """The sampler's cache has keys and values as float8_e4m3fn."""
    import torch

    sampler = planted.Model()
    for layer in sampler.model.model.layers:
        for projection in (layer.self_attn.k_proj, layer.self_attn.v_proj):
            projection.register_forward_hook(lambda module, given, found: found.to(torch.float8_e4m3fn).float())
    return each(lambda segment: rescore(segment, sampler), records(1))


def one_layer_not_sent() -> Case:
    """The sampler has the new weights, but for the feed-forward part of one layer."""
    folder = planted.trained(4, 5e-4)
    sampler, before = planted.Model(folder), planted.model().model
    sampler.model.model.layers[2].mlp.load_state_dict(before.model.layers[2].mlp.state_dict())
    return each(lambda segment: rescore(segment, sampler), records(2), engine=f"transformers:{folder}")


def letters_one_by_one() -> Case:
    """The sampler read the user's words letter by letter, the row has the tokenizer's ids."""

    def change(segment: Segment) -> None:
        start = spans(segment)[0][0]
        ids = segment["input_ids"]
        *_, asked = decode(ids[:start]).rpartition("<|im_start|>user\n")
        said, *after = re.split(r"(?=<\|im_end\|>)", asked, maxsplit=1)
        before = len(ids[:start]) - len(encode(asked))
        letters = [token for letter in said for token in encode(letter)]
        seen = [*ids[:before], *letters, *encode("".join(after))]
        row = [*seen, *ids[start:]]
        values = scored(row, planted.model().logits(row), [0] * len(seen) + segment["loss_mask"][start:])
        segment["logprobs"] = [0.0] * start + values[len(seen) :]

    return each(change, records(2))


STACK_FAULTS: dict[str, tuple[str, Callable[[], Case]]] = {
    "temperature twice": ("temperature", temperature_twice),
    "a server's first token": ("special tokens", bos_of_the_server),
    "tools lost": ("template drift", tools_lost),
    "reasoning stripped": ("template drift", reasoning_stripped),
    "padded embeddings": ("truncated vocabulary", lambda: Case(records(1), f"transformers:{padded()}")),
    "line after a turn": ("mask off by one", line_after_a_turn),
    "base for every second request": ("wrong adapter", base_for_every_second_request),
    "cache in 8 bits": ("dtype", cache_in_8_bits),
    "one layer not sent": ("unknown", one_layer_not_sent),
    "letters one by one": ("retokenised turn", letters_one_by_one),
}
"""By name: the cause that was expected, and a function that makes the file."""


# Sound


def padded_on_both_sides() -> Case:
    model = planted.Model(padded())
    return each(lambda segment: rescore(segment, model), records(3), engine=f"transformers:{padded()}")


def sampled_after(change: Callable[[str], list[int]], seed: int) -> Case:
    """The model's turn, of 60 tokens at most, is sampled after a changed prompt, which the row has as well."""
    import torch

    found = [record for record in records(seed) if record["env_id"].startswith("gym_llm/Arithmetic")]
    end = planted.tokenizer().convert_tokens_to_ids("<|im_end|>")
    torch.manual_seed(seed)
    for segment in segments(found):
        prompt = change(decode(segment["input_ids"][: spans(segment)[0][0]]))
        ids = list(prompt)
        while len(ids) < len(prompt) + 60 and (len(ids) == len(prompt) or ids[-1] != end):
            with torch.inference_mode():
                logits = planted.model().model(input_ids=torch.tensor([ids])).logits[0, -1]
            ids.append(int(torch.multinomial(logits.softmax(-1), 1)))
        segment["input_ids"], segment["loss_mask"] = ids, [0] * len(prompt) + [1] * (len(ids) - len(prompt))
        rescore(segment)
    for record in found:
        record["response"]["output"] = []
    return Case(bare(found))


def dated_on_both_sides() -> Case:
    """The request, the sampler and the row have one system message."""
    said = "Today is 27 November 2026."
    case = sampled_after(lambda text: encode(f"<|im_start|>system\n{said}<|im_end|>\n{text}"), 2)
    for record in case.records:
        request = record["responses_create_params"]
        request["input"] = [{"role": "system", "content": said}, *request["input"]]
    return case


def unusual_tokens() -> Case:
    """The sampler read the user's words letter by letter, and the row has them so."""

    def letters(text: str) -> list[int]:
        before, mark, asked = text.rpartition("<|im_start|>user\n")
        said, *after = re.split(r"(?=<\|im_end\|>)", asked, maxsplit=1)
        return [
            *encode(before + mark),
            *(token for letter in said for token in encode(letter)),
            *encode("".join(after)),
        ]

    return sampled_after(letters, 1)


def last_turn_only() -> Case:
    """The trainer learns from the last turn of a row only."""

    def change(segment: Segment) -> None:
        start, _ = spans(segment)[-1]
        for name, blank in (("loss_mask", 0), ("logprobs", 0.0)):
            segment[name][:start] = [blank] * start

    return each(change, records(3))


STACK_SOUND: dict[str, Callable[[], Case]] = {
    "TRL's rows": lambda: Case(as_trl(records(3)), ENGINE),
    "padded on both sides": padded_on_both_sides,
    "dated on both sides": dated_on_both_sides,
    "unusual tokens": unusual_tokens,
    "last turn only": last_turn_only,
}
"""Runs in which sampler and trainer agree."""
