"""ConformingEnv: a verifier that can do as NeMo Gym's does, also where we think that wrong."""

from __future__ import annotations

from typing import Any, Literal

from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.types import Row


class ConformingEnv(VerifierEnv):
    """A verifier with the argument `conform`; what it changes, the class that derives from this says.

    Args:
        tasks: See `VerifierEnv`.
        conform: `"nemo"` reads, scores and reports as NeMo Gym does; None as we think right.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If `conform` is something else.
    """

    def __init__(
        self, tasks: str | list[Row] | None = None, *, conform: Literal["nemo"] | None = None, **kwargs: Any
    ) -> None:
        if conform not in (None, "nemo"):
            raise ValueError(f"conform is None or 'nemo', got {conform!r}.")
        super().__init__(tasks, **kwargs)
        self.conform = conform
