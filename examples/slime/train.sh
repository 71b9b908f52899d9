#!/usr/bin/env bash
# GRPO with slime on one node: run it in slime's checkout, with the model's own arguments behind (MODEL_ARGS, --load, …).
set -euo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
python -c 'from gym_llm.trainers.shared.trainer_tasks import TrainedEnv; TrainedEnv("gym_llm/Arithmetic-v0").dataset(4096).to_json("train.jsonl")'
PYTHONPATH="$folder:${PYTHONPATH:-}" python train.py \
    --custom-generate-function-path slime_episodes.generate \
    --custom-reward-post-process-path gym_llm.trainers.slime.post_process_rewards \
    --prompt-data train.jsonl \
    --input-key prompt \
    --label-key task_index \
    --apply-chat-template \
    --rollout-batch-size 32 \
    --n-samples-per-prompt 8 \
    --global-batch-size 256 \
    --rollout-max-response-len 1024 \
    --rollout-temperature 1 \
    --num-rollout 300 \
    --advantage-estimator grpo \
    --use-tis "$@"
