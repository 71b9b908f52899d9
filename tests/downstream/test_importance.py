"""Our importance weights are those of TRL's GRPOTrainer and of verl's rollout correction."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from peers import in_peer

from gym_llm.trainers.shared.importance import importance

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trls_code() -> CodeType:
    """The lines of TRL's trainer that compute the ratios, from the middle of a method that also samples."""
    from trl import GRPOTrainer

    source = textwrap.dedent(inspect.getsource(GRPOTrainer._generate_and_score_completions))
    blocks = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.If)
        and ast.unparse(node.test) == "self.use_vllm and self.vllm_importance_sampling_correction"
        and "masked_fill" in ast.unparse(node)
    ]
    assert len(blocks) == 1
    return compile(ast.Module([*blocks], []), "grpo_trainer.py", "exec")


def trls_weights(code: CodeType, trainer: Any, sampler: Any, mask: Any, mode: str, lowest: Any, highest: Any) -> Any:
    names: dict[str, Any] = {
        **{"torch": torch, "math": math, "tool_mask": None, "completion_mask": torch.tensor(mask)},
        **{"old_per_token_logps": torch.tensor(trainer), "sampling_per_token_logps": torch.tensor(sampler)},
        "self": SimpleNamespace(
            use_vllm=True,
            vllm_importance_sampling_correction=True,
            vllm_importance_sampling_mode=mode,
            vllm_importance_sampling_clip_min=lowest,
            vllm_importance_sampling_clip_max=highest,
        ),
    }
    exec(code, names)  # noqa: S102 - it is what TRL runs
    return names["vllm_importance_sampling_ratio"].expand(mask.shape).numpy() * mask


@pytest.mark.parametrize("spread", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize(
    ("bound", "lowest", "highest"),
    [("truncate", None, 3.0), ("truncate", None, 1.01), ("mask", None, 3.0), ("mask", 0.5, 2.0), ("mask", 0.99, 5.0)],
)
def test_trls_ratios(trls_code: CodeType, spread: float, level: Any, bound: Any, lowest: Any, highest: float) -> None:
    random = np.random.default_rng(5)
    trainer, sampler = random.normal(-2, spread, (2, 12, 9))  # sums of logarithms below 20: TRL does not bound them
    mask = (random.random((12, 9)) < 0.8).astype(int)
    mask[0], mask[1, 3:] = 0, 0
    theirs = trls_weights(trls_code, trainer, sampler, mask, f"{level}_{bound}", lowest, highest)
    ours = importance(trainer, sampler, mask, level=level, bound=bound, highest=highest, lowest=lowest)
    assert np.abs(theirs - ours.weights).max() < 1e-6
    assert spread < 2 or ours.cut > 0


def test_verls_weights_and_measures() -> None:
    found = in_peer("verl", "verl_importance.py")
    assert found["cases"] == 26 and found["bounded"] > 20
    assert found["weights"] < 1e-6 and found["kl"] < 1e-6 and found["effective"] < 1e-6
