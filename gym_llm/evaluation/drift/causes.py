"""The causes of drift that are told apart, and what each means."""

from __future__ import annotations

from typing import NamedTuple

CAUSES = {
    "log base": "The recorded values are not natural logarithms of probabilities.",
    "temperature": "Sampler and trainer divide the logits by different temperatures.",
    "top-k renormalisation": "The sampler's probabilities are among its top-k tokens, the trainer's among all.",
    "top-p renormalisation": "The sampler's probabilities are among its top-p tokens, the trainer's among all.",
    "truncated vocabulary": "The sampler's probabilities lack tokens that the trainer's have, such as padding rows.",
    "mask off by one": "The mask or the log probabilities are moved against the token ids.",
    "shuffled rows": "Rows have the log probabilities of other rows.",
    "tool output in mask": "The mask counts tokens of tools or users as sampled.",
    "special tokens": "The row lacks special tokens that the sampler read or sampled.",
    "template drift": "The sampler read another prompt than the row has.",
    "retokenised turn": "The row has other token ids for a text than were sampled or read.",
    "dtype": "Sampler and trainer compute in different precision.",
    "wrong adapter": "The sampler had another adapter than the trainer, or only one of them had it.",
    "stale weights": "Other weights sampled the tokens, such as those before an update.",
    "unknown": "No known cause explains the drift.",
}
"""By name, the meaning of each cause. Where two explain the drift as well, the earlier one is named."""


class Finding(NamedTuple):
    """A cause that was found.

    Attributes:
        cause: One of `CAUSES`.
        detail: What was found, as a sentence.
        explained: The share of the drift that it explains, from 0 to 1.
    """

    cause: str
    detail: str
    explained: float
