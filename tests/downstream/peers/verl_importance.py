"""Our importance weights beside those of verl's rollout correction. Prints the largest differences."""

from __future__ import annotations

import json

import numpy as np
import torch
from verl.trainer.ppo.rollout_corr_helper import compute_offpolicy_metrics, compute_rollout_correction_weights

from gym_llm.trainers.shared.importance import importance

RANDOM = np.random.default_rng(3)
largest = {"weights": 0.0, "kl": 0.0, "effective": 0.0}
cases = bounded = 0
for spread in (0.01, 0.3, 3.0, 30.0):  # verl bounds logarithms at 20, as we do
    trainer, sampler = RANDOM.normal(-2, spread, (2, 40, 30))
    mask = (RANDOM.random((40, 30)) < 0.8).astype(int)
    mask[0], mask[1, 3:] = 0, 0
    new, old, used = torch.tensor(trainer), torch.tensor(sampler), torch.tensor(mask)
    for level in ("token", "sequence"):
        for lowest, highest in ((None, 2.0), (None, 1.01), (0.5, 2.0), (0.99, 5.0)):
            if lowest is not None and spread > (1 if level == "sequence" else 20):
                continue  # theirs divides by 0 where no weight is left
            threshold = highest if lowest is None else f"{lowest}_{highest}"
            theirs, _ = compute_rollout_correction_weights(new - old, used, level, threshold)
            bound = "truncate" if lowest is None else "mask"
            ours = importance(trainer, sampler, mask, level=level, bound=bound, highest=highest, lowest=lowest)
            largest["weights"] = max(largest["weights"], np.abs(theirs.numpy() - ours.weights).max())
            cases, bounded = cases + 1, bounded + (ours.cut > 0)
    kl = compute_offpolicy_metrics(new, old, used)["kl"]
    largest["kl"] = max(largest["kl"], abs(kl - importance(trainer, sampler, mask).kl))
    if spread < 1:  # they truncate first, here beyond all ratios
        _, metrics = compute_rollout_correction_weights(new - old, used, "token", 1e6)
        found = importance(trainer, sampler, mask, highest=1e6)
        difference = abs(metrics["rollout_is_eff_sample_size"] - found.effective)
        largest["effective"] = max(largest["effective"], difference)
print(json.dumps({"cases": cases, "bounded": bounded, **largest}))
