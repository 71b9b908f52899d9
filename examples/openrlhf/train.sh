#!/usr/bin/env bash
# GRPO with OpenRLHF 0.11 on one node of eight GPUs; `ray start --head` first.
set -euo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
python "$folder/dataset.py" train.jsonl
python -m openrlhf.cli.train_ppo_ray \
    --actor.model_name_or_path Qwen/Qwen3-0.6B \
    --train.agent_func_path "$folder/agent.py" \
    --data.prompt_dataset train.jsonl \
    --data.input_key prompt \
    --data.label_key task_index \
    --data.apply_chat_template \
    --data.max_len 2048 \
    --rollout.max_new_tokens 1024 \
    --rollout.batch_size 128 \
    --rollout.n_samples_per_prompt 8 \
    --train.batch_size 1024 \
    --algo.advantage.estimator dr_grpo \
    --algo.advantage.is_correction_level token \
    --algo.kl.init_coef 0 \
    --actor.num_nodes 1 \
    --actor.num_gpus_per_node 8 \
    --vllm.num_engines 8 \
    --vllm.tensor_parallel_size 1 \
    --vllm.gpu_memory_utilization 0.6 \
    --vllm.enable_sleep \
    --train.colocate_all \
    --ds.enable_sleep \
    --actor.adam.lr 1e-6 \
    --ckpt.output_dir runs/openrlhf "$@"
