"""Episodes for ART (OpenPipe's Agent Reinforcement Trainer): its `Trajectory` and `TrajectoryGroup`.

ART takes messages and the `Choice`s of a chat server. From 0.5.19 on (which needs Python 3.12), each choice carries the
ids of its prompt and of its answer, and ART trains on these. ART 0.5.18 does not accept ids of a prompt. It renders the
messages with the tokenizer's chat template, tokenises the text, and replaces each choice's text by its sampled ids. The
model's own template would render another conversation than the one that was played: Qwen3's drops or adds reasoning.

This module gives ART a template that repeats every message unchanged, `CHAT_TEMPLATE`. Each text between sampled ones
is a message, with its markup. The module tokenises each trajectory with ART's own function, and refuses one whose ids
differ from those that the model read and sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from art import Trajectory, TrajectoryGroup
from art.preprocessing.tokenize import tokenize_trajectory
from openai.types.chat.chat_completion import Choice, ChoiceLogprobs
from openai.types.chat.chat_completion_message import ChatCompletionMessage
from openai.types.chat.chat_completion_token_logprob import ChatCompletionTokenLogprob

from gym_llm.errors import DataError, EpisodeMasked
from gym_llm.trainers.shared.masked import masking_error
from gym_llm.trainers.shared.token_rows import TokenRow, token_rows
from gym_llm.types import Rollout

try:
    from art.trajectories import LegacyHistory as History
except ImportError:  # ART 0.5.18
    from art.trajectories import History

CHAT_TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
"""Shows every message as it is. Belongs into the trained model's `InternalModelConfig`."""


class InexactTokens(DataError):
    """ART would train on other tokens than were read and sampled; the message says in which segment."""


def art_tokenizer(base_model: str) -> Any:
    """The tokenizer that ART trains with, if its model's config says `chat_template=CHAT_TEMPLATE`."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base_model)
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def trajectory(record: Rollout, tokenizer: Any) -> Trajectory:
    """An episode as ART has it; its further segments are `additional_histories`.

    Args:
        record: The episode's record.
        tokenizer: See `art_tokenizer`.

    Raises:
        EpisodeMasked: If the episode is masked.
        InexactTokens: If ART would train on other ids than the model read and sampled. For example, ART's tokenizer may
            join two pieces of text that were tokenised separately.
        ValueError: If nothing was sampled, the record has no token ids, or the tokenizer has another chat template.
    """
    if tokenizer.chat_template != CHAT_TEMPLATE:
        raise ValueError("The tokenizer's chat_template is not gym_llm.trainers.art.CHAT_TEMPLATE: use art_tokenizer.")
    reward = record["reward"]
    if reward is None:
        raise masking_error(record)
    rows = token_rows(record)
    if not rows:
        raise ValueError("The record has no sampled token ids: use an engine that reports them.")
    first, *others = [History(messages_and_choices=_messages(row, tokenizer)) for row in rows]
    made = Trajectory(
        messages_and_choices=first.messages_and_choices,
        additional_histories=others,
        reward=reward,
        metrics={name: value for name, value in record["info"].items() if isinstance(value, float | int)},
    )
    for number, (row, history) in enumerate(zip(rows, [first, *others], strict=True), 1):
        if not _is_exact(row, history, made, tokenizer):
            raise InexactTokens(
                f"ART's ids differ from the model's in segment {number} of {len(rows)} of task "
                f"{record['rollout_id']['task_index']} of {record['env_id']}."
            )
    return made


def trajectory_group(records: Sequence[Rollout], tokenizer: Any) -> TrajectoryGroup:
    """A task's records as ART has a group: what is masked or inexact is among its `exceptions`, and in no baseline.

    ```python
    model = art.TrainableModel(
        name="weather",
        run_name="weather-1",  # from ART 0.5.19 on
        project="gym_llm",
        base_model="Qwen/Qwen3-8B",
        _internal_config=art.dev.InternalModelConfig(chat_template=CHAT_TEMPLATE),
    )
    tokenizer = art_tokenizer(model.base_model)
    await backend.train(model, [trajectory_group(records, tokenizer) for records in groups])
    ```

    Raises:
        ValueError: As `trajectory`.
    """
    members: list[Trajectory | BaseException] = []
    for record in records:
        try:
            members.append(trajectory(record, tokenizer))
        except (EpisodeMasked, InexactTokens) as error:
            members.append(error)
    return TrajectoryGroup(members)


def _messages(row: TokenRow, tokenizer: Any) -> list[Any]:
    """What was read as messages, what was sampled as choices."""
    messages: list[Any] = []
    read = 0
    for start, end in row.turns:
        messages.append({"role": "user", "content": _text(row.input_ids[read:start], tokenizer)})
        messages.append(_choice(row, start, end, tokenizer))
        read = end
    return messages


def _choice(row: TokenRow, start: int, end: int, tokenizer: Any) -> Choice:
    sampled, log_probs = row.input_ids[start:end], row.logprobs[start:end]
    ids: dict[str, Any] = {"prompt_token_ids": row.input_ids[:start], "token_ids": sampled}
    return Choice(
        finish_reason="stop",
        index=0,
        logprobs=ChoiceLogprobs(
            content=[
                ChatCompletionTokenLogprob(token=f"token_id:{token}", logprob=log_prob, top_logprobs=[])
                for token, log_prob in zip(sampled, log_probs, strict=True)
            ]
        ),
        message=ChatCompletionMessage(role="assistant", content=_text(sampled, tokenizer)),
        **ids,
    )


def _text(ids: list[int], tokenizer: Any) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)  # type: ignore[no-any-return]


def _is_exact(row: TokenRow, history: History, made: Trajectory, tokenizer: Any) -> bool:
    """Whether ART trains on this row."""
    try:
        theirs = tokenize_trajectory(tokenizer, None, history, 1.0, False, made)
    except ValueError:  # it looks for its mark in the text, which may have become part of another token
        return False
    return (
        theirs is not None
        and theirs.token_ids == row.input_ids
        and theirs.assistant_mask == row.loss_mask
        and all(a == b for a, b, mask in zip(theirs.logprobs, row.logprobs, row.loss_mask, strict=True) if mask)
    )
