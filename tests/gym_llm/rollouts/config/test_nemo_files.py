"""Files of NeMo Gym that name other files, inherit from each other's sections, and describe benchmarks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from testing import ROOT

from gym_llm.cli import main
from gym_llm.core.registry.classes import env_arguments, env_class, own_values
from gym_llm.core.registry.ids import env_ids
from gym_llm.errors import ConfigError
from gym_llm.rollouts.config import load_config
from gym_llm.rollouts.config.sections import EngineSection

BASE = """
letters:
  resources_servers:
    mcqa: {entrypoint: app.py, domain: knowledge, grading_mode: lenient_boxed, num_workers: 2}
letters_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: letters}
      max_steps: 3
      datasets:
      - {name: train, type: train, jsonl_fpath: servers/letters/train.jsonl, license: CC BY-SA 4.0}
      - {name: example, type: example, jsonl_fpath: servers/letters/example.jsonl}
"""
BENCHMARK = """
config_paths: [servers/letters/base.yaml]
hard:
  _inherit_from: letters
  resources_servers: {mcqa: {grading_mode: strict_single_letter_boxed}}
hard_agent:
  _inherit_from: letters_agent
  responses_api_agents:
    simple_agent:
      resources_server: {name: hard}
      datasets:
      - name: hard
        type: benchmark
        jsonl_fpath: marks/hard/data.jsonl
        prompt_config: marks/prompts/letters.yaml
        prepare_script: marks/hard/prepare.py
        license: CC-BY-4.0
"""


@pytest.fixture(autouse=True)
def checkout(tmp_path, monkeypatch):
    for folder in ("servers/letters", "marks/hard", "marks/prompts"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    write("servers/letters/base.yaml", BASE)
    write("marks/prompts/letters.yaml", "system: Choose.\nuser: '{question} {{A or B}}'\n")
    write("marks/hard/config.yaml", BENCHMARK)
    write(
        "marks/hard/data.jsonl", json.dumps({"question": "Which?", "options": OPTIONS, "expected_answer": "B"}) + "\n"
    )
    return tmp_path


OPTIONS = [{"A": "one"}, {"B": "two"}]


def write(name: str, text: str) -> str:
    Path(name).write_text(text, "utf-8")
    return name


def load(*texts: str, settings: tuple[str, ...] = ()):
    return load_config([write(f"{chr(97 + n)}.yaml", text) for n, text in enumerate(texts)], settings)


def problem(*texts: str, settings: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*texts, settings=settings)
    return str(caught.value)


@pytest.mark.parametrize("folder", [".", "marks", "/"])
def test_a_benchmark_is_read_from_any_folder(checkout, monkeypatch, folder):
    monkeypatch.chdir(checkout / folder)
    config = load_config([os.path.relpath(checkout / "marks/hard/config.yaml")])
    assert list(config.environments) == ["hard_agent"]  # what it inherits moved there
    section = config.environments["hard_agent"]
    assert (section.env, section.domain) == ("gym_llm/MultipleChoice-v0", "knowledge")
    assert section.kwargs == {"grading_mode": "strict_single_letter_boxed", "max_turns": 3}
    (dataset,) = section.datasets
    assert (dataset.name, dataset.type, dataset.license) == ("hard", "benchmark", None)
    assert Path(dataset.jsonl_fpath).exists() and Path(dataset.prompt_config).exists()
    assert [sentence.partition(" (")[0].rpartition(".")[2] for sentence in config.unmapped] == [
        "prepare_script",
        "license",
    ]


def test_a_benchmark_plays(checkout):
    argv = ["rollout", "--config", "marks/hard/config.yaml", "--engine", r"constant:\boxed{B}", "--output", "a.jsonl"]
    assert main(argv) == 0
    (record,) = map(json.loads, Path("a.jsonl").read_text().splitlines())
    assert record["reward"] == 1.0
    assert record["responses_create_params"]["input"] == [
        {"role": "system", "content": "Choose."},
        {"role": "user", "content": "Which? {A or B}"},
    ]


ARITHMETIC = "a: {{env: gym_llm/Arithmetic-v0, kwargs: {{digits: {}}}}}\n"


def test_a_file_goes_over_what_it_names_and_over_the_files_before_it():
    write("inner.yaml", ARITHMETIC.format(1) + "b: {env: gym_llm/Counter-v0, limit: 1}")
    write("one.yaml", "config_paths: [inner.yaml]\n" + ARITHMETIC.format(2))
    write("two.yaml", "config_paths: [inner.yaml]\nb: {limit: 2}")
    one, both = load_config(["one.yaml"]), load_config(["one.yaml", "two.yaml"])
    assert one.environments["a"].kwargs == {"digits": 2}
    assert (both.environments["a"].kwargs, both.environments["b"].limit) == ({"digits": 2}, 2)
    assert load_config(["two.yaml", "one.yaml"]).environments["a"].kwargs == {"digits": 2}
    assert both.variables == {}
    write("inner.yaml", "config_paths: [one.yaml]\n" + ARITHMETIC.format(3))  # in a circle
    assert load_config(["one.yaml"]).environments["a"].kwargs == {"digits": 2}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "config_paths: [there.yaml]",
            "a.yaml: config_paths has there.yaml, which is neither in the working",
        ),
        ("config_paths: there.yaml", "a.yaml: config_paths is a list of files"),
        ("config_paths: ['${x}']", "a.yaml: config_paths: Interpolation key 'x' not found"),
        ("a: {_inherit_from: b.c}\nb: {env: x}", "a (a.yaml): it inherits b.c, which no file has"),
        ("a: {_inherit_from: b}\nb: {_copy: a}", "it inherits itself, by way of"),
        ("a: {_inherit_from: a.b}", "it inherits itself, by way of a.b"),
        ("a: {_inherit_from: a}", "it inherits itself, by way of a"),
        ("a: {_inherit_from: b, env: x}\nb: 3", "a (a.yaml): b is not a mapping"),
        ("a: {_copy: b, _delete_key: kwargs}\nb: {env: x}", "_delete_key names kwargs, which b does not have"),
        ("a: {_inherit_from: b}\nb: '???'", "a is required"),
    ],
)
def test_what_cannot_be_included_or_inherited_is_said(text, said):
    assert said in problem(text)


def test_sections_inherit_copy_and_lose_keys():
    config = load(
        "base: {env: gym_llm/Arithmetic-v0, repeats: 2, kwargs: {digits: 3, terms: 2}}\n"
        "one: {_inherit_from: base, kwargs: {digits: 1}}\n"
        "two: {_inherit_from: base, _delete_key: 'repeats, kwargs'}\n"
        "three: {_copy: one, limit: 7}\n"
        "four: {env: gym_llm/Arithmetic-v0, kwargs: '${copy:one.kwargs}'}\n"
    )
    assert list(config.environments) == ["one", "two", "three", "four"]
    assert config.environments["one"].kwargs == config.environments["four"].kwargs == {"digits": 1, "terms": 2}
    assert (config.environments["two"].kwargs, config.environments["two"].repeats) == ({}, None)
    assert (config.environments["three"].repeats, config.environments["three"].limit) == (2, 7)


def test_what_is_inherited_knows_where_it_is_from():
    Path("deep").mkdir()
    write("deep/rows.jsonl", "")
    row = "{name: n, type: example, jsonl_fpath: rows.jsonl}"
    write("deep/base.yaml", f"base: {{env: gym_llm/Arithmetic-v0, datasets: [{row}, {row.replace('n,', 'm,')}]}}")
    config = load(f"config_paths: [deep/base.yaml]\none: {{_copy: base}}\ntwo: {{_copy: base, datasets: [{row}]}}")
    assert [dataset.jsonl_fpath for dataset in config.environments["one"].datasets] == ["deep/rows.jsonl"] * 2
    assert [dataset.jsonl_fpath for dataset in config.environments["two"].datasets] == ["rows.jsonl"]
    assert "two.limit (a.yaml)" in problem(
        "config_paths: [deep/base.yaml]\ntwo: {_copy: base, limit: many}\nbase: {limit: 3}"
    )


def test_a_dummy_models_values_go_under_those_of_the_model():
    config = load(
        "m: {responses_api_models: {dummy_model: {entrypoint: app.py, model: n, api_key: k}}}",
        "m: {responses_api_models: {vllm_model: {base_url: 'http://x/v1', model: m}}}",
    )
    assert config.engines["m"].kwargs == {"api": "chat", "model": "m", "api_key": "k"}


# -- judges, and what is not used --------------------------------------------------------------------------------------

JUDGE = """
judge:
  responses_api_models:
    openai_model: {openai_base_url: 'http://j/v1', openai_api_key: sk-98765432109876, openai_model: j}
xs:
  resources_servers:
    equivalence_llm_judge:
      entrypoint: app.py
      domain: knowledge
      judge_model_server: {type: responses_api_models, name: judge}
      judge_responses_create_params: {input: [], temperature: 0.5}
xs_agent: {responses_api_agents: {simple_agent: {resources_server: {type: resources_servers, name: xs}}}}
"""


def test_the_judge_of_a_server_is_an_argument_of_the_environment(capsys):
    kwargs = load(JUDGE).environments["xs_agent"].kwargs
    options = {"api": "responses", "api_key": "sk-98765432109876", "model": "j"}
    assert kwargs["judge"] == {"engine": "http://j/v1", "kwargs": options}
    assert kwargs["judge_responses_create_params"]["temperature"] == 0.5
    env = gym.make("gym_llm/EquivalenceLLMJudge-v0", **kwargs).unwrapped
    assert env.judge["engine"] == "http://j/v1"
    assert main(["config", "--config", "a.yaml"]) == 0
    shown = capsys.readouterr().out
    assert "judge:" in shown and "sk-98765432109876" not in shown


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "openai_model: {openai",
            "no_such_model: {openai",
            "judge_model_server (a.yaml): judge is no model that can be",
        ),
        ("'http://j/v1'", "''", "judge.responses_api_models.openai_model (a.yaml): it has no base URL"),
        ("equivalence_llm_judge", "mcqa", "gym_llm/MultipleChoice-v0 asks no other model; it changes nothing"),
        ("domain: knowledge", "strict: 1", "gym_llm/EquivalenceLLMJudge-v0 has no such option; it is not used"),
    ],
)
def test_what_of_a_server_changes_nothing_is_said(old, new, said):
    assert any(said in sentence for sentence in load(JUDGE.replace(old, new)).unmapped)


def test_options_that_are_read_are_arguments_of_the_environment():
    unknown = {
        env_id: sorted({*own_values(env_id, "nemo_gym_kwargs")} - (env_arguments(env_class(env_id)) or set()))
        for env_id in env_ids()
    }
    assert {env_id: names for env_id, names in unknown.items() if names} == {}


TAU2 = """
policy_model: {responses_api_models: {openai_model: {openai_base_url: http://p/v1, openai_model: m, openai_api_key: k}}}
user: {responses_api_models: {openai_model: {openai_base_url: http://u/v1, openai_model: u, openai_api_key: k}}}
tau2_agent:
  responses_api_agents:
    tau2:
      entrypoint: app.py
      domain: agent
      model_server: {type: responses_api_models, name: policy_model}
      user_model_server: {type: responses_api_models, name: user}
      user_llm_args: {}
      max_steps: 100
      print_step_counts: false
      datasets:
      - {name: example, type: example, jsonl_fpath: tau2/example.jsonl}
"""


def test_an_agent_that_has_an_environment_of_its_own_is_that_environment():
    config = load(TAU2)
    section = config.environments["tau2_agent"]
    assert (section.env, section.domain, section.engine) == ("gym_llm/Tau2-v0", "agent", "policy_model")
    assert section.kwargs["max_steps"] == 100 and section.kwargs["user"]["engine"] == "http://u/v1"
    assert [dataset.name for dataset in section.datasets] == ["example"]
    assert [sentence.partition(" (")[0].rpartition(".")[2] for sentence in config.unmapped] == ["print_step_counts"]
    said = problem(TAU2.replace("name: user}", "name: usr}"))
    assert "user_model_server.name (a.yaml): there is no section of responses_api_models called usr." in said


def test_a_judge_that_is_not_there_is_an_error():
    said = problem(JUDGE.replace("name: judge}", "name: juge}"))
    assert "judge_model_server.name (a.yaml): there is no section of responses_api_models called juge." in said
    assert "Did you mean judge?" in said


def test_what_is_set_over_every_request_is_sampling():
    config = load(BASE, "responses_create_params: {temperature: 0.5, max_output_tokens: 9}")
    assert config.environments["letters_agent"].sampling == {"temperature": 0.5, "max_output_tokens": 9}


def test_what_means_nothing_here_may_stay_unresolved():
    other = "sandbox: {image: '${oc.env:GYM_LLM_NO_SUCH_IMAGE}'}\n"
    config = load(BASE.replace("num_workers: 2", "extra: {deep: '${nowhere}'}") + other)
    said = "\n".join(config.unmapped)
    assert "letters.resources_servers.mcqa.extra.deep (a.yaml): Interpolation key 'nowhere' not found" in said
    assert "sandbox.image (a.yaml): Environment variable 'GYM_LLM_NO_SUCH_IMAGE' not found" in said
    assert "nowhere is not given" in problem(BASE.replace("lenient_boxed", "'${nowhere}'"))
    used = BASE.replace("servers/letters/train.jsonl", "'${nowhere}'")
    assert "datasets.0.jsonl_fpath (a.yaml): Interpolation key 'nowhere' not found." in problem(used)
    ours = "x: {env: gym_llm/Arithmetic-v0, kwargs: {digits: '${nowhere}'}}"
    assert "nowhere is not given" in problem(BASE, ours)


def test_a_section_of_something_else_is_named_and_a_misspelt_one_of_ours_is_an_error():
    config = load(BASE, "prepare_script_args: {subset: all}")
    assert "prepare_script_args (b.yaml): it is no section of an environment" in config.unmapped[-1]
    assert "Did you mean env?" in problem(BASE, "x: {enf: gym_llm/Arithmetic-v0}")


def test_datasets_of_environments_that_are_not_here_are_checked_too():
    text = BASE.replace("mcqa:", "no_such_server:").replace("license: CC BY-SA 4.0", "num_repeats: 0")
    said = problem(text)
    assert "letters_agent.responses_api_agents.simple_agent.datasets.0.num_repeats (a.yaml)" in said


@pytest.mark.parametrize(
    ("implementation", "values", "url", "api"),
    [
        ("litellm_model", {"openai_base_url": "http://a/v1"}, "http://a/v1", "responses"),
        ("inference_provider", {"base_url": "http://a/v1", "num_concurrent_requests": 9}, "http://a/v1", "chat"),
        (
            "azure_openai_model",
            {"openai_base_url": "https://a/", "default_query": {"api-version": "x"}},
            "https://a/openai/v1",
            "chat",
        ),
    ],
)
def test_a_model_behind_a_url_is_an_engine(implementation, values, url, api):
    names = (
        {"openai_api_key": "k", "openai_model": "m"} if "openai_base_url" in values else {"api_key": "k", "model": "m"}
    )
    config = load(json.dumps({"policy_model": {"responses_api_models": {implementation: values | names}}}))
    assert config.engines["policy_model"] == EngineSection(
        engine=url, kwargs={"api": api, "api_key": "k", "model": "m"}
    )
    said = {"inference_provider": "give the command --concurrency", "azure_openai_model": "has no api-version"}
    assert [said[implementation] in sentence for sentence in config.unmapped] == [True] * (implementation in said)


def test_a_proxy_of_a_local_model_is_that_models_engine():
    text = BASE.replace(
        "      max_steps", "      model_server: {type: responses_api_models, name: calm}\n      max_steps"
    )
    local = "policy_model: {responses_api_models: {local_vllm_model: {model: m}}}"
    calm = {"model_server": {"name": "policy_model"}, "chat_template_kwargs": {"enable_thinking": False}}
    proxy = json.dumps({"calm": {"responses_api_models": {"local_vllm_model_proxy": calm}}})
    config = load(text, proxy, local)
    assert config.environments["letters_agent"].engine == "policy_model"
    assert config.engines["policy_model"].engine == "vllm:m"
    assert any("chat_template_kwargs (b.yaml): give it in the tasks'" in sentence for sentence in config.unmapped)


@pytest.mark.slow
def test_every_file_of_nemo_gym_is_read_or_refused_as_there():
    checkout = os.environ.get("NEMO_GYM_CHECKOUT")
    if not checkout:
        pytest.skip("NEMO_GYM_CHECKOUT names no folder of NeMo Gym's source")
    command = [sys.executable, str(ROOT / "benchmarks/nemo_configs.py"), checkout]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["disagreed"] == 0, done.stdout
    assert figures["files"] > 400
