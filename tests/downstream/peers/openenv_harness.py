"""TRL's HarnessRolloutWorker over a capture server: argument URL. What it hands its trainer is what was sampled."""

import functools
import json
import sys
import time

from accelerate.state import PartialState
from capture_harness import Factory
from datasets import Dataset
from transformers import AutoTokenizer
from trl.experimental.async_grpo import async_rollout_worker
from trl.experimental.async_grpo.openenv_harness import HarnessRolloutWorker

if __name__ == "__main__":
    url, model = sys.argv[1:]
    PartialState()
    async_rollout_worker.is_vllm_available = lambda: True  # who samples here is the capture server
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.response_schema = {"type": "object"}  # it parses nothing: the agent has a loop of its own
    worker = HarnessRolloutWorker(
        harness_session_factory=functools.partial(Factory, url),
        model_name="pocket",
        dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": f"task {n}"}] for n in range(8)]}),
        reward_funcs=[],
        processing_class=tokenizer,
        eos_token_ids=[tokenizer.eos_token_id],
        num_generations=4,
        max_inflight_tasks=4,
        temperature=1.0,
    )
    worker.start()
    samples = []
    try:
        begun = time.monotonic()
        while len(samples) < 24 and time.monotonic() - begun < 240:
            worker.check_health(60.0)
            try:
                samples.append(worker.rollout_buffer.get(timeout=1))
            except Exception as error:
                assert type(error).__name__ == "Empty", error
    finally:
        worker.stop()
    told = [
        {
            "input_ids": sample.input_ids.tolist(),
            "mask": sample.completion_mask.tolist(),
            "log_probs": sample.old_log_probs.tolist(),
            "advantage": sample.advantage,
        }
        for sample in samples
    ]
    print(json.dumps({"samples": told}))
