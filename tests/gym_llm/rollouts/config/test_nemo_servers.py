"""Model and agent sections of NeMo Gym in the shapes of its own files, and what each is here."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

from gym_llm.rollouts.config import load_config
from gym_llm.rollouts.config.sections import EngineSection

POLICY = ("policy_base_url=http://p/v1", "policy_api_key=k", "policy_model_name=m", "genrm_model_name=g")
SHARED = "policy_base_url: ???\npolicy_api_key: ???\npolicy_model_name: ???\ngenrm_model_name: ???\n"


def load(tmp_path: Path, *texts: str):
    files = []
    for number, text in enumerate((SHARED, *texts)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text, "utf-8")
        files.append(str(file))
    return load_config(files, POLICY)


def model(name: str, more: str = "") -> str:
    return f"""
policy_model:
  responses_api_models:
    {name}:
      entrypoint: app.py
{more}"""


OPENAI = """      openai_base_url: ${policy_base_url}
      openai_api_key: ${policy_api_key}
      openai_model: ${policy_model_name}
"""
AZURE = "      default_query: {api-version: 1}\n"
BODY = {"provider": {"sort": "price"}}
HOSTED = """      base_url: https://openrouter.ai/api/v1
      api_key: ${policy_api_key}
      model: ${policy_model_name}
      uses_reasoning_parser: true
      num_concurrent_requests: 1000
      extra_body: {provider: {sort: price}}
"""
GENRM = """
genrm_model:
  responses_api_models:
    genrm_model:
      entrypoint: app.py
      model: ${genrm_model_name}
      return_token_id_information: false
      uses_reasoning_parser: true
      supports_principle_role: SUPPORTED
      hf_home: null
      vllm_serve_env_vars: {VLLM_RAY_DP_PACK_STRATEGY: strict}
      vllm_serve_kwargs: {data_parallel_size: 1, tensor_parallel_size: 8, trust_remote_code: true}
      debug: false
"""
COMPARE = """
genrm_compare_resources_server:
  resources_servers:
    genrm_compare:
      entrypoint: app.py
      genrm_model_server: {type: responses_api_models, name: genrm_model}
      num_rollouts_per_prompt: 16
      genrm_responses_create_params: {input: [], max_output_tokens: 99, temperature: 0.6}
      comparison_strategy: all_pairs
      num_judges_per_comparison: 2
      top_percentile: 0.3
      default_ranking: 3.5
      genrm_parse_retries: 5
      genrm_parse_retry_sleep_s: 0.2
      domain: rlhf
genrm_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: genrm_compare_resources_server}
      model_server: {type: responses_api_models, name: policy_model}
"""


@pytest.mark.parametrize(
    ("text", "kwargs", "unmapped"),
    [
        (model("litellm_model", OPENAI), {"api": "responses"}, []),
        (
            model("azure_openai_model", OPENAI + "      default_query: {api-version: 1}\n"),
            {"api": "chat"},
            ["default_query"],
        ),
        (
            model("inference_provider", HOSTED),
            {"api": "chat", "extra_body": {"provider": {"sort": "price"}}},
            ["num_concurrent_requests"],
        ),
    ],
    ids=["litellm", "azure", "inference_provider"],
)
def test_a_hosted_model_is_an_engine_at_its_url(tmp_path, text, kwargs, unmapped) -> None:
    config = load(tmp_path, text)
    engine = config.engines["policy_model"]
    urls = {"azure_openai_model": "http://p/v1/openai/v1", "inference_provider": "https://openrouter.ai/api/v1"}
    assert engine.engine == next((url for name, url in urls.items() if name in text), "http://p/v1")
    assert engine.kwargs == {"api_key": "k", "model": "m", **kwargs}
    assert [sentence.partition(" (")[0].rpartition(".")[2] for sentence in config.unmapped] == unmapped


def test_a_genrm_model_is_computed_by_vllm_and_judges_groups(tmp_path) -> None:
    config = load(tmp_path, model("litellm_model", OPENAI), GENRM.replace("SUPPORTED", "true"), COMPARE)
    options = {"data_parallel_size": 1, "tensor_parallel_size": 8, "trust_remote_code": True}
    assert config.engines["genrm_model"] == EngineSection(engine="vllm:g", kwargs=options)
    section = config.environments["genrm_simple_agent"]
    assert (section.env, section.repeats) == ("gym_llm/GenRMCompare-v0", 16)
    assert section.kwargs["judge"] == {"engine": "vllm:g", "kwargs": options}
    assert section.kwargs["judge_retries"] == 5 and section.kwargs["comparison_strategy"] == "all_pairs"
    env = gym.make(section.env, **{**section.kwargs, "judge": "constant:x"}).unwrapped
    assert env.config.judge_responses_create_params["max_output_tokens"] == 99
    said = [sentence.partition(" (")[0].rpartition(".")[2] for sentence in config.unmapped]
    assert said == ["VLLM_RAY_DP_PACK_STRATEGY", "genrm_parse_retry_sleep_s"]
    config = load(tmp_path, GENRM.replace("SUPPORTED", "false"))
    assert any("leave out `use_principle`" in sentence for sentence in config.unmapped)


AGENT = """
pivot: {resources_servers: {swe_pivot: {entrypoint: app.py}}}
agent:
  responses_api_agents:
    NAME:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: pivot}
"""


@pytest.mark.parametrize(
    ("name", "options", "turns", "unmapped"),
    [
        ("tool_simulation_agent", "", 1, []),
        ("proof_refinement_agent", "max_correction_turns: 2\n      include_all_attempts: true", 3, []),
        ("proof_refinement_agent", "include_all_attempts: false", 1, ["include_all_attempts"]),
        ("conversational_tool_use/simulation", "max_agent_steps: 50\n      seed_first_user_message: true", 50, []),
        ("conversational_tool_use/simulation", "seed_first_user_message: false", None, ["seed_first_user_message"]),
        ("deep_agent", "", None, ["deep_agent"]),
    ],
)
def test_an_agent_is_a_limit_of_turns(tmp_path, name, options, turns, unmapped) -> None:
    config = load(tmp_path, AGENT.replace("NAME", name) + f"      {options}\n")
    assert config.environments["agent"].kwargs.get("max_turns") == turns
    assert [sentence.partition(" (")[0].rpartition(".")[2] for sentence in config.unmapped] == unmapped


def test_agents_that_make_tasks_are_named_with_the_reason(tmp_path) -> None:
    text = """
domain_generation:
  responses_api_agents:
    conversational_tool_use/domain_generation:
      entrypoint: app.py
      model_server: {type: responses_api_models, name: domain_generation_model}
      followup_count: 1
domain_generation_model:
  _copy: policy_model
"""
    config = load(tmp_path, model("litellm_model", OPENAI), text)
    assert config.environments == {} and len(config.unmapped) == 1
    assert "it makes task files and has no reward" in config.unmapped[0]
