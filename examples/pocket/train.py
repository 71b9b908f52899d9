"""Train the pocket model from nothing: `python examples/pocket/train.py --output FOLDER`.

A corpus is made up (`corpus.py`), a tokenizer is trained on it, then a Qwen3 model learns to write the assistant's
turns. Two cores and about ten minutes are enough. The same arguments give the same model on the same machine and
library versions; elsewhere floating point differs a little.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus import Conversation, conversations
from tokenizer import save_tokenizer, train_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

CONTEXT = 4096
POOL = 2048
"""Conversations that are sorted by length together, so that a batch holds little padding."""


def render(tokenizer: PreTrainedTokenizerFast, conversation: Conversation) -> tuple[list[int], list[bool]]:
    """Tokenize a conversation and say which tokens are to be learned.

    Args:
        tokenizer: The tokenizer with its chat template.
        conversation: Messages and tools.

    Returns:
        Token ids and, for each, whether it is the model's: the assistant turns that still have their thinking (the
        template drops that of earlier questions, and a turn without is nothing to imitate), end of turn included.
    """
    messages, tools = conversation
    text = tokenizer.apply_chat_template(messages, tools=tools or None, tokenize=False)
    ids = tokenizer.encode(text, add_special_tokens=False)
    vocabulary = tokenizer.get_vocab()
    start, end, think = vocabulary["<|im_start|>"], vocabulary["<|im_end|>"], vocabulary["<think>"]
    header = [start, *tokenizer.encode("assistant\n", add_special_tokens=False), think]
    learned = [False] * len(ids)
    for position in (i for i, token in enumerate(ids) if token == start):
        first = position + len(header) - 1
        if ids[position : first + 1] == header:
            last = ids.index(end, first)
            learned[first : last + 1] = [True] * (last + 1 - first)
    return ids, learned


def batches(
    tokenizer: PreTrainedTokenizerFast, seed: int, slip: float, batch_tokens: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Batches without end: conversations of similar length, padded on the right.

    Args:
        tokenizer: The tokenizer.
        seed: Of the corpus and of the order.
        slip: Probability of a mistake in each column of a scratchpad.
        batch_tokens: Tokens in a batch, padding included, at most.

    Yields:
        `input_ids` (int64) and `learned` (bool), both of shape (conversations, tokens).
    """
    import torch

    source = conversations(seed, slip)
    shuffle = torch.Generator().manual_seed(seed)
    while True:
        pool = sorted((render(tokenizer, next(source)) for _ in range(POOL)), key=lambda pair: len(pair[0]))
        groups: list[list[tuple[list[int], list[bool]]]] = [[]]
        for pair in pool:
            if len(pair[0]) * (len(groups[-1]) + 1) > batch_tokens:
                groups.append([])
            groups[-1].append(pair)
        for index in torch.randperm(len(groups), generator=shuffle).tolist():
            width = len(groups[index][-1][0])
            yield (
                torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in groups[index]]),
                torch.tensor([learned + [False] * (width - len(learned)) for _, learned in groups[index]]),
            )


def make_model(tokenizer: PreTrainedTokenizerFast, hidden: int, layers: int, seed: int) -> Qwen3ForCausalLM:
    """A Qwen3 with random weights and nothing unusual in its configuration.

    Args:
        tokenizer: Gives the vocabulary.
        hidden: Width; heads are 32 wide.
        layers: Depth.
        seed: Of the weights.

    Returns:
        The model, float32.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 64,
        head_dim=32,
        initializer_range=0.05,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> int:
    """Write weights (bfloat16), configuration and tokenizer.

    Args:
        model: The trained model; it is converted to bfloat16.
        tokenizer: Its tokenizer.
        folder: Where to.

    Returns:
        The size of all files together, in bytes.
    """
    from transformers import GenerationConfig

    folder.mkdir(parents=True, exist_ok=True)
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    model.generation_config = GenerationConfig(
        eos_token_id=[end, pad], pad_token_id=pad, do_sample=True, temperature=1.0
    )
    model.bfloat16().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # written for the owner only
    save_tokenizer(tokenizer, folder)
    # Readers older than transformers 5 look for rope_theta at the top level.
    path = folder / "config.json"
    config: dict[str, Any] = json.loads(path.read_text())
    config["rope_theta"] = config["rope_parameters"]["rope_theta"]
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    return sum(file.stat().st_size for file in folder.iterdir())


def train(arguments: argparse.Namespace) -> None:
    """Train as the command line says, print progress, and save.

    Args:
        arguments: What `parser` parsed.
    """
    # Threads that wait without spinning: on a busy machine this is several times faster. Read when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch
    from torch.nn import functional

    torch.set_num_threads(arguments.threads)
    started = time.monotonic()
    sample = itertools.islice(conversations(arguments.seed, arguments.slip), 4096)
    tokenizer = train_tokenizer(sample, arguments.vocabulary, CONTEXT)
    model = make_model(tokenizer, arguments.hidden, arguments.layers, arguments.seed)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters:,} parameters, {len(tokenizer)} tokens in the vocabulary", flush=True)
    matrices = [parameter for parameter in model.model.layers.parameters() if parameter.ndim == 2]
    others = [model.model.embed_tokens.weight, *(parameter for parameter in model.parameters() if parameter.ndim == 1)]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
    ]
    source = batches(tokenizer, arguments.seed + 1, arguments.slip, arguments.batch_tokens)
    seen, recent = 0, []
    for step in range(arguments.steps):
        warm = min(1.0, (step + 1) / 100)
        cosine = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / arguments.steps))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = arguments.learning_rate * warm * cosine
        ids, learned = next(source)
        hidden = model.model(ids[:, :-1]).last_hidden_state[learned[:, 1:]]
        loss = functional.cross_entropy(model.lm_head(hidden), ids[:, 1:][learned[:, 1:]])
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        seen += ids.numel()
        recent.append(loss.item())
        if (step + 1) % 50 == 0 or step + 1 == arguments.steps:
            seconds = time.monotonic() - started
            mean = sum(recent) / len(recent)
            left = seconds / (step + 1) * (arguments.steps - step - 1)
            print(
                f"step {step + 1}/{arguments.steps}  loss {mean:.4f}  {seen / seconds:,.0f} tokens/s  "
                f"{seconds:.0f} s, {left:.0f} s to go",
                flush=True,
            )
            recent.clear()
    size = save(model, tokenizer, arguments.output)
    print(f"{size:,} bytes in {arguments.output} after {time.monotonic() - started:.0f} s", flush=True)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    result.add_argument("--output", type=Path, required=True, help="folder for the model")
    result.add_argument("--seed", type=int, default=0, help="of corpus, weights and order")
    result.add_argument("--steps", type=int, default=1800, help="optimizer steps")
    result.add_argument("--batch-tokens", type=int, default=4096, help="tokens in a batch")
    result.add_argument("--learning-rate", type=float, default=8e-3, help="peak learning rate")
    result.add_argument("--slip", type=float, default=0.08, help="mistakes per scratchpad column in the corpus")
    result.add_argument("--vocabulary", type=int, default=1024, help="tokens in the vocabulary")
    result.add_argument("--hidden", type=int, default=128, help="width, a multiple of 64")
    result.add_argument("--layers", type=int, default=4, help="depth")
    result.add_argument("--threads", type=int, default=2, help="CPU threads")
    return result


if __name__ == "__main__":
    train(parser().parse_args())
