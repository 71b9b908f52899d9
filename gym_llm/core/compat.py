"""NemoCompatible: a verifier that can do as NeMo Gym's does, also where we think that wrong."""

from __future__ import annotations

from typing import Literal

from gym_llm.core.verifier_env import VerifierEnv


class NemoCompatible(VerifierEnv):
    """A verifier with the argument `conform`. The class that derives from this documents what it changes.

    Args:
        conform: `"nemo"` reads, scores and reports as NeMo Gym 0.7.0 does; None as we think right.
        **kwargs: See `VerifierEnv`.

    Raises:
        ValueError: If `conform` is something else.
    """

    class Config(VerifierEnv.Config):
        """The argument of a verifier that can follow NeMo Gym's rules."""

        conform: Literal["nemo"] | None = None

    config: Config

    @property
    def reads_python_json(self) -> bool:
        """Whether the arguments of calls are read as Python's `json` reads them, as in NeMo Gym."""
        return self.conform is not None

    @property
    def conform(self) -> Literal["nemo"] | None:
        """The argument."""
        return self.config.conform
