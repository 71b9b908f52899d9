"""TRL trains on what an agent had the model say: the rows are the tokens that were read and sampled."""

import os
from dataclasses import replace

import pytest
from testing import POCKET

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from openai import AsyncOpenAI
from trl import GRPOConfig, GRPOTrainer

from gym_llm.trainers.trl import RolloutFunc

pytestmark = pytest.mark.slow


async def loop(episode):
    """Asks over HTTP, calls what the model wants called, and answers with its last words."""
    messages = [{"role": "user", "content": episode.prompt}]
    tools = [{"type": "function", "function": tool} for tool in episode.tools]
    async with AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, max_retries=0) as client:
        for _ in range(4):
            chat = await client.chat.completions.create(model=episode.model, messages=messages, tools=tools)
            message = chat.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content or ""
            for call in message.tool_calls:
                output = await episode.call_tool(call.function.name, call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": output})


def test_what_an_agent_had_the_model_say_reaches_the_trainers_batch_exactly(tmp_path, monkeypatch):
    episodes, temperatures = [], []
    with RolloutFunc(
        "gym_llm/Weather-v0", agent=loop, engine_options={"threads": 1}, segments="last", agent_timeout=60
    ) as weather:
        play = weather._pool.play_all

        def noted(jobs, engine, settings):
            temperatures.append(settings.sampling["temperature"])
            assert replace(settings, agent=None).agent_timeout == 60
            episodes.extend(play(jobs, engine, settings))
            return episodes

        monkeypatch.setattr(weather._pool, "play_all", noted)
        config = GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=16,
            num_generations=4,
            max_completion_length=400,
            off_policy_mask_threshold=0.5,
            bf16=False,
            use_cpu=True,
            max_steps=1,
            report_to="none",
        )
        trainer = GRPOTrainer(
            POCKET, args=config, train_dataset=weather.dataset(8), rollout_func=weather, reward_funcs=weather.reward
        )
        batches = []
        score = trainer._generate_and_score_completions
        monkeypatch.setattr(
            trainer, "_generate_and_score_completions", lambda rows: batches.append(score(rows)) or batches[-1]
        )
        trainer.train()
    batch = batches[0]
    assert len(episodes) == 16 and temperatures == [1.0]
    assert all(record["info"]["agent"]["model_calls"] >= 1 for record in episodes)
    assert sum(record["info"]["turn"] for record in episodes) > 16  # tools were called
    for row, record in enumerate(episodes):
        branch = record["trajectory"][-1]
        kept = batch["completion_mask"][row].bool()
        trained = (batch["completion_mask"] * batch["tool_mask"])[row].bool()[kept].int().tolist()
        prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
        assert prompt + batch["completion_ids"][row][kept].tolist() == branch["input_ids"]
        assert [0] * len(prompt) + trained == branch["loss_mask"]
        log_probs = batch["sampling_per_token_logps"][row][kept].tolist()
        assert [0.0] * len(prompt) + log_probs == pytest.approx(branch["logprobs"], abs=1e-6)
        assert len(branch["input_ids"]) - len(prompt) <= 400
