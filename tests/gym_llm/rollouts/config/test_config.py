from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from testing import ROOT

from gym_llm.cli import main
from gym_llm.errors import ConfigError
from gym_llm.rollouts.config import EngineSection, load_config
from gym_llm.utils.secrets import mask

ENV_CONFIGS = sorted(ROOT.glob("envs/*/config.yaml"))
ARITHMETIC = "arithmetic:\n  env: gym_llm/Arithmetic-v0\n  kwargs: {digits: 2}\n"


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> str:
    Path(name).write_text(text, "utf-8")
    return name


def load(*texts: str, settings: tuple[str, ...] = ()):
    """Load YAML texts as files a.yaml, b.yaml, …"""
    return load_config([write(f"{chr(97 + n)}.yaml", text) for n, text in enumerate(texts)], settings)


def problem(*texts: str, settings: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*texts, settings=settings)
    return str(caught.value)


# -- composing -----------------------------------------------------------------------------------------------------


def digits(config) -> int:
    return config.environments["arithmetic"].kwargs["digits"]


def test_later_files_then_env_yaml_then_settings_win():
    files = [ARITHMETIC, "arithmetic:\n  kwargs: {digits: 3}\n"]
    assert digits(load(*files[:1])) == 2
    assert digits(load(*files)) == 3
    write("env.yaml", "arithmetic: {kwargs: {digits: 4}}")
    assert digits(load(*files)) == 4
    assert digits(load(*files, settings=("arithmetic.kwargs.digits=5",))) == 5
    assert digits(load(*files, settings=("arithmetic.kwargs.digits=5", "arithmetic.kwargs.digits=6"))) == 6


def test_sections_keep_what_later_files_do_not_mention():
    config = load(ARITHMETIC, "arithmetic: {kwargs: {terms: 3}}\nother: {env: gym_llm/Weather-v0}\n")
    assert config.environments["arithmetic"].kwargs == {"digits": 2, "terms": 3}
    assert list(config.environments) == ["arithmetic", "other"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("7", 7),
        ("1.5", 1.5),
        ("[1, 2]", [1, 2]),
        ("'7'", "7"),
        ("true", True),
        ("", None),
        ("a=b", "a=b"),
        ("x y", "x y"),
    ],
)
def test_the_value_of_a_setting_is_yaml(setting, value):
    assert digits(load(ARITHMETIC, settings=(f"arithmetic.kwargs.digits={setting}",))) == value


def test_a_setting_reaches_into_lists():
    text = ARITHMETIC + "  datasets:\n  - {name: a, type: example, jsonl_fpath: a.jsonl}\n"
    config = load(text, settings=("arithmetic.datasets.0.jsonl_fpath=b.jsonl",))
    assert config.environments["arithmetic"].datasets[0].source == "b.jsonl"
    assert "datasets.7" in problem(text, settings=("arithmetic.datasets.7.name=b",))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("digits", "A setting is key=value"),
        ("=3", "A setting is key=value"),
        ("arithmetics.kwargs.digits=3", "nothing in the configuration is called arithmetics. Did you mean arithmetic?"),
        ("policy_base_ulr=http://x/v1", "Did you mean policy_base_url?"),
        ("arithmetic.kwargs=3", "kwargs (the command line): Input should be a valid dictionary"),
        ("arithmetic.env.x=3", "arithmetic.env (the command line): Input should be a valid string"),
        ("arithmetic.kwargs.digits=[", "cannot be set"),
        ("arithmetic.kwargs.digits=${oops", "cannot be set"),
    ],
)
def test_a_setting_that_cannot_be_made_is_named(setting, said):
    assert said in problem(ARITHMETIC, settings=(setting,))


def test_files_may_be_named_as_nemo_gym_does():
    more = write("more.yaml", "arithmetic: {kwargs: {digits: 3}}")
    assert digits(load(ARITHMETIC, settings=(f"+config_paths=[{more}]",))) == 3
    write("env.yaml", f"mine: [a.yaml, {more}]")
    assert digits(load_config([], ["config_paths=${mine}", "arithmetic.kwargs.terms=3"])) == 3
    assert "expected a list of files" in problem(ARITHMETIC, settings=("config_paths=a.yaml",))
    assert "config_paths=${nobody}: Interpolation key" in problem(ARITHMETIC, settings=("config_paths=${nobody}",))


def test_a_new_value_is_added_with_a_plus_or_where_something_refers_to_it():
    assert load(ARITHMETIC, settings=("+hf_token=hello",)).variables == {"hf_token": "hello"}
    text = ARITHMETIC.replace("2", "'${how_many}'")
    assert digits(load(text, settings=("how_many=4",))) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "this is a list"),
        ("3", "this is a single value"),
        ("a: [", "a.yaml is not YAML that can be used"),
        ("a: 1\na: 2\n", "duplicate key a"),
        ("1: {env: x}", "the name of a section is a text, got 1"),
        ("a: ${b", "a.yaml"),
        ("arithmetic: {evn: gym_llm/Arithmetic-v0}", "arithmetic (a.yaml): a section has `env: ID`"),
        ("arithmetic: {evn: gym_llm/Arithmetic-v0}", "Did you mean env?"),
        ("a: {env: x, kwarg: {}}", "a.kwarg (a.yaml): there is no such key. Did you mean kwargs?"),
        ("a: {env: 3}", "a.env (a.yaml): Input should be a valid string"),
        (
            "a: {env: x, kwargs: {tasks: b}, datasets: [{name: a, type: example, jsonl_fpath: c}]}",
            "both say which tasks",
        ),
        (
            "a: {env: x, datasets: [{name: a, type: train, jsonl_fpath: c}]}",
            "a.datasets.0 (a.yaml): a train dataset needs",
        ),
        ("a: {env: x, datasets: [{name: a, type: example}]}", "a.datasets.0.jsonl_fpath (a.yaml): Field required"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(text, said):
    assert said in problem(text)


def test_two_datasets_of_one_name_are_refused():
    dataset = "{name: a, type: example, jsonl_fpath: b}"
    assert "two datasets are called a" in problem(f"a: {{env: x, datasets: [{dataset}, {dataset}]}}")


def test_files_that_cannot_be_read_are_named():
    with pytest.raises(ConfigError, match=r"Cannot read nowhere\.yaml: No such file"):
        load_config(["nowhere.yaml"])
    Path("latin.yaml").write_bytes(b"a: \xe9")
    with pytest.raises(ConfigError, match=r"latin\.yaml is not UTF-8"):
        load_config(["latin.yaml"])


# -- missing values and references ---------------------------------------------------------------------------------


def test_all_missing_values_are_reported_at_once_with_file_and_key():
    said = problem(
        "a: {env: '???', kwargs: {x: '${hos}/v1', y: ['???', '${deep.er}']}}\nhost: h",
        "b: {engine: '???', kwargs: {key: '${a.env}', other: '${oc.env:SURELY_NOT_SET}'}}",
    )
    assert said.splitlines() == [
        "The configuration is not complete:",
        "  a.env is required (a.yaml)",
        "  hos is not given, and needed by a.kwargs.x: ${hos}/v1 (a.yaml). Did you mean host?",
        "  a.kwargs.y.0 is required (a.yaml)",
        "  deep.er is not given, and needed by a.kwargs.y.1: ${deep.er} (a.yaml).",
        "  b.engine is required (b.yaml)",
        "  b.kwargs.other: ${oc.env:SURELY_NOT_SET} (b.yaml): Environment variable 'SURELY_NOT_SET' not found",
        "Give them in a --config, in env.yaml, or as key=value.",
    ]


def test_a_required_value_is_satisfied_from_anywhere():
    required = "arithmetic: {env: '???', kwargs: {digits: '???'}}"
    given = "arithmetic: {env: gym_llm/Arithmetic-v0}"
    assert digits(load(required, given, settings=("arithmetic.kwargs.digits=1",))) == 1
    assert digits(load(given, required, settings=("arithmetic.kwargs.digits=1",))) == 1


def test_settings_may_refer_to_values():
    assert digits(load("n: 3", ARITHMETIC, settings=("arithmetic.kwargs.digits=${n}",))) == 3
    assert "oops is not given, and needed by arithmetic.kwargs.digits" in problem(
        ARITHMETIC, settings=("arithmetic.kwargs.digits=${oops}",)
    )


def test_interpolations_are_resolved():
    config = load("n: 3\narithmetic: {env: gym_llm/Arithmetic-v0, kwargs: {digits: '${n}', text: 'n=${.digits}'}}")
    assert config.environments["arithmetic"].kwargs == {"digits": 3, "text": "n=3"}


def test_an_interpolation_that_refers_to_itself_is_an_error():
    assert "a.kwargs.x" in problem("a: {env: x, kwargs: {x: '${.y}', y: '${.x}'}}")


ENGINES = "fast: {engine: 'http://a/v1'}\nslow: {engine: 'http://b/v1'}\n"


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("", "pocket"),
        ("one: {engine: 'http://a/v1', kwargs: {model: m}}", "http://a/v1"),
        (ENGINES + "policy: {engine: 'http://c/v1'}", "http://c/v1"),
        ("policy_base_url: http://p/v1\npolicy_model_name: m", "http://p/v1"),
        ("policy_base_url: [http://p/v1, http://q/v1]", "http://p/v1,http://q/v1"),
        ("arithmetic: {engine: slow}\n" + ENGINES, "http://b/v1"),
        ("arithmetic: {engine: pocket}\n" + ENGINES, "pocket"),
        ("arithmetic: {engine: 'transformers:m'}", "transformers:m"),
    ],
)
def test_who_plays(text, engine):
    assert load(ARITHMETIC, text).engine_of("arithmetic").engine == engine


def test_an_engine_that_is_not_there_gets_a_hint():
    said = problem(ARITHMETIC, ENGINES, "arithmetic: {engine: fats}")
    assert "arithmetic (c.yaml): `engine: fats` names no section of an engine" in said
    assert "Did you mean fast?" in said


def test_what_cannot_be_decided_is_asked():
    assert "there are several: fast, slow" in problem(ARITHMETIC, ENGINES)
    assert "policy_model_name need policy_base_url" in problem(ARITHMETIC, "policy_model_name: m")


def test_the_policy_is_the_model_of_the_policy_values():
    config = load(ARITHMETIC, settings=("policy_base_url=http://x/v1", "policy_api_key=k", "policy_model_name=m"))
    assert config.engines["policy"] == EngineSection(engine="http://x/v1", kwargs={"model": "m", "api_key": "k"})
    assert config.engine_of("arithmetic").make().model == "m"


def test_all_problems_of_all_sections_are_named_at_once():
    said = problem("a: {env: 1}\nb: {engine: 2}\nc: {}\nd: {env: x, engine: y}")
    assert [name for name in "abcd" if re.search(rf"^  {name}\b", said, re.MULTILINE)] == list("abcd")


# -- dataset paths -------------------------------------------------------------------------------------------------


def dataset(path: str, name: str = "a") -> str:
    return f"{{name: {name}, type: example, jsonl_fpath: '{path}'}}"


def paths(config) -> list[str]:
    return [dataset.jsonl_fpath for section in config.environments.values() for dataset in section.datasets]


def test_a_datasets_file_is_looked_for_beside_its_configuration_then_in_the_working_directory():
    Path("deep/data").mkdir(parents=True)
    Path("data").mkdir()
    for path in ("deep/data/both.jsonl", "data/both.jsonl", "deep/beside.parquet", "data/here.jsonl"):
        write(path, "")
    names = {
        "data/both.jsonl": "deep/data/both.jsonl",
        "data/both.jsonl[:5]": "deep/data/both.jsonl[:5]",
        "beside.parquet": "deep/beside.parquet",
        "data/here.jsonl": "data/here.jsonl",
        "data/nowhere.jsonl": "data/nowhere.jsonl",
        "hf:data": "hf:data",
        str(Path("data/both.jsonl").absolute()): str(Path("data/both.jsonl").absolute()),
        "${folder}/both.jsonl": "deep/data/both.jsonl",
    }
    datasets = ", ".join(dataset(path, f"n{number}") for number, path in enumerate(names))
    write("deep/a.yaml", f"folder: data\narithmetic: {{env: gym_llm/Arithmetic-v0, datasets: [{datasets}]}}\n")
    assert paths(load_config(["deep/a.yaml"])) == list(names.values())
    assert paths(load_config([Path("deep/a.yaml").absolute()]))[2] == str(Path("deep/beside.parquet").absolute())


def test_each_path_belongs_to_the_file_that_names_it():
    for folder in ("one", "two"):
        Path(folder).mkdir()
        write(f"{folder}/rows.jsonl", "")
    write("one/a.yaml", f"a: {{env: x, datasets: [{dataset('rows.jsonl')}]}}")
    write("two/b.yaml", f"b: {{env: x, datasets: [{dataset('rows.jsonl')}]}}")
    files = ["one/a.yaml", "two/b.yaml"]
    assert paths(load_config(files)) == ["one/rows.jsonl", "two/rows.jsonl"]
    write("two/c.yaml", f"a: {{datasets: [{dataset('rows.jsonl')}]}}")
    assert paths(load_config([*files, "two/c.yaml"])) == ["two/rows.jsonl", "two/rows.jsonl"]
    assert paths(load_config(files, ["a.datasets.0.jsonl_fpath=rows.jsonl"])) == ["rows.jsonl", "two/rows.jsonl"]
    write("env.yaml", f"b: {{datasets: [{dataset('rows.jsonl')}]}}")
    assert paths(load_config(files)) == ["one/rows.jsonl", "rows.jsonl"]


def test_a_file_of_nemo_gym_names_paths_from_the_root_of_its_repository_or_beside_itself():
    Path("resources_servers/mcqa/data").mkdir(parents=True)
    for path in ("resources_servers/mcqa/data/train.jsonl", "resources_servers/mcqa/beside.jsonl"):
        write(path, "")
    agent = (
        "mcqa: {resources_servers: {mcqa: {entrypoint: app.py}}}\n"
        "mcqa_agent: {responses_api_agents: {simple_agent: {resources_server: {name: mcqa}, datasets: ["
        f"{dataset('resources_servers/mcqa/data/train.jsonl')}, {dataset('beside.jsonl', 'b')}]}}}}}}\n"
    )
    config = load_config([write("resources_servers/mcqa/mcqa.yaml", agent)])
    assert paths(config) == ["resources_servers/mcqa/data/train.jsonl", "resources_servers/mcqa/beside.jsonl"]


def test_what_is_kept_of_a_dataset_does_not_depend_on_where_the_command_ran(tmp_path, monkeypatch):
    written = {"name": "a", "type": "example", "jsonl_fpath": "rows.jsonl"}
    Path("deep").mkdir()
    write("deep/rows.jsonl", "")
    write("deep/a.yaml", f"a: {{env: x, datasets: [{dataset('rows.jsonl')}]}}")
    for folder, path in ((".", "deep/a.yaml"), ("deep", "a.yaml"), ("/", tmp_path / "deep/a.yaml")):
        monkeypatch.chdir(tmp_path / folder)
        (config,) = load_config([path]).environments["a"].datasets
        assert Path(config.jsonl_fpath).exists()
        assert config.as_written().items() >= written.items()


@pytest.mark.slow
def test_example_configurations_that_are_installed_run_from_any_directory(tmp_path, monkeypatch):
    installed = tmp_path / "site"
    for path in ENV_CONFIGS:
        shutil.copytree(path.parent, installed / path.parent.name)
    monkeypatch.chdir("/")
    files = [part for path in ENV_CONFIGS for part in ("--config", str(installed / path.parent.name / "config.yaml"))]
    prepare = ["data", "prepare", *files, "--mode", "example_validation", "--tokenizer", "none"]
    assert main([*prepare, "--output-dir", str(tmp_path / "out")]) == 0
    prepared = (tmp_path / "out/example.jsonl").read_text().splitlines()
    assert len(prepared) == 5 * len(ENV_CONFIGS)
    config = str(installed / "weather/config.yaml")
    assert main(["rollout", "--config", config, "--output", str(tmp_path / "weather.jsonl")]) == 0
    assert len((tmp_path / "weather.jsonl").read_text().splitlines()) == 5


# -- secrets -------------------------------------------------------------------------------------------------------


def test_secrets_and_what_is_made_of_them_are_masked():
    write("env.yaml", "policy_api_key: sk-0123456789\nhf_token: hf_abc\nmlflow_tracking_uri: http://me:pass@host/\n")
    text = """
policy_base_url: http://x/v1
copy: ${policy_api_key}
indirect: ${copy}
short: ${hf_token}
embedded: a sk-0123456789 b
judge:
  engine: http://y/v1
  kwargs: {extra_body: {Authorization: "Bearer ${policy_api_key}"}, api_key: "${oc.env:KEY}", max_output_tokens: 5}
"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEY", "from-the-environment")
        config = load(ARITHMETIC + "  engine: policy\n" + text)
    shown = config.as_dict()
    assert "sk-0123456789" not in str(shown)
    assert "from-the-environment" not in str(shown)
    assert "hf_abc" not in str(shown)
    assert "pass" not in str(shown)
    assert shown["embedded"] == "a *** b"
    assert shown["judge"]["kwargs"]["max_output_tokens"] == 5
    assert shown["policy"]["kwargs"]["api_key"] == "***"
    assert config.engines["policy"].kwargs["api_key"] == "sk-0123456789"


def test_an_error_does_not_tell_secrets():
    write("env.yaml", "policy_api_key: sk-0123456789")
    said = problem(ARITHMETIC.replace("2}", "2}\n  engine: ${policy_api_key}\n  domain: ${policy_api_key}"))
    assert "sk-0123456789" not in said


@pytest.mark.parametrize("value", [None, "", [], {}])
def test_a_secret_that_is_not_given_is_shown_so(value):
    assert mask({"api_key": value}) == {"api_key": value}


# -- the command ---------------------------------------------------------------------------------------------------


def test_the_environments_files_compose(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = load_config(ENV_CONFIGS)
    assert len(config.environments) == len(ENV_CONFIGS)
    ours = [each for env in config.environments.values() for each in env.datasets if each.type == "example"]
    assert len(ours) >= len(ENV_CONFIGS)
    assert all(Path(dataset.jsonl_fpath).exists() for dataset in ours)


def test_what_is_printed_is_a_configuration_that_prints_the_same(capsys):
    command = ["config", *(part for path in ENV_CONFIGS for part in ("--config", str(path)))]
    assert main([*command, "policy_base_url=http://x/v1", "arithmetic.kwargs.digits=3"]) == 0
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed)["arithmetic"]["kwargs"]["digits"] == 3
    assert main(["config", "--config", write("printed.yaml", printed)]) == 0
    assert capsys.readouterr().out == printed


def test_settings_may_stand_anywhere(capsys):
    path = write("a.yaml", ARITHMETIC)
    assert (
        main(["config", "arithmetic.kwargs.digits=3", "--config", path, "arithmetic.kwargs.terms=4", "+hf_token=x"])
        == 0
    )
    shown = yaml.safe_load(capsys.readouterr().out)
    assert (shown["arithmetic"]["kwargs"], shown["hf_token"]) == ({"digits": 3, "terms": 4}, "***")


def test_kwargs_that_are_no_arguments_are_said(capsys):
    path = write("a.yaml", "a: {env: gym_llm/Arithmetic-v0, kwargs: {digit: 2, max_turns: 3, odd_thing: 1}}")
    assert main(["config", "--config", path]) == 2
    said = capsys.readouterr().err
    assert "a.kwargs.digit: gym_llm/Arithmetic-v0 has no such argument. Did you mean digits?" in said
    assert "a.kwargs.odd_thing: gym_llm/Arithmetic-v0 has no such argument." in said and "max_turns" not in said


def test_what_is_wrong_is_said_and_ends_with_2(capsys):
    assert main(["config", "--config", "nowhere.yaml"]) == 2
    assert capsys.readouterr().err == "gym-llm: Cannot read nowhere.yaml: No such file or directory.\n"
    assert main(["config", "--config", write("a.yaml", "a: {env: gym_llm/Arithmetics-v0}")]) == 2
    assert "Did you mean gym_llm/Arithmetic-v0?" in capsys.readouterr().err


def test_the_other_commands_do_not_load_what_configuration_needs():
    code = "import sys, gym_llm.cli; print([m for m in ('omegaconf', 'yaml', 'datasets') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# -- NeMo Gym ------------------------------------------------------------------------------------------------------

NEMO_MODEL = """
policy_model:
  responses_api_models:
    openai_model:
      entrypoint: app.py
      openai_base_url: ${policy_base_url}
      openai_api_key: ${policy_api_key}
      openai_model: ${policy_model_name}
"""
NEMO_MATH = """
math_with_judge:
  resources_servers:
    math_with_judge:
      entrypoint: app.py
      judge_model_server: {type: responses_api_models, name: policy_model}
      should_use_judge: false
      be_strict: true
      domain: math
      description: mathematics
math_with_judge_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      max_steps: 3
      resources_server: {type: resources_servers, name: math_with_judge}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
      - name: train
        type: train
        jsonl_fpath: resources_servers/math_with_judge/data/train.jsonl
        huggingface_identifier: {repo_id: nvidia/Nemotron-RL-math-OpenMathReasoning, artifact_fpath: train.jsonl}
        license: Creative Commons Attribution 4.0 International
        shuffle: true
"""
POLICY = ("policy_base_url=http://x/v1", "policy_api_key=sk-0123456789", "policy_model_name=m")


def test_nemo_gyms_files_are_read():
    config = load(NEMO_MODEL, NEMO_MATH, settings=POLICY)
    assert list(config.environments) == ["math_with_judge_simple_agent"]
    env = config.environments["math_with_judge_simple_agent"]
    assert (env.env, env.domain, env.engine) == ("gym_llm/MathWithJudge-v0", "math", "policy_model")
    judge = {"engine": "http://x/v1", "kwargs": {"api": "responses", "model": "m", "api_key": "sk-0123456789"}}
    assert env.kwargs == {"judge": judge, "should_use_judge": False, "max_turns": 3}
    assert env.datasets[0].huggingface_identifier.repo_id == "nvidia/Nemotron-RL-math-OpenMathReasoning"
    kwargs = {"api": "responses", "model": "m", "api_key": "sk-0123456789"}
    assert config.engines == {"policy_model": EngineSection(engine="http://x/v1", kwargs=kwargs)}


def test_what_has_no_counterpart_is_listed():
    config = load(NEMO_MODEL, NEMO_MATH, "head_server: {host: 127.0.0.1, port: 11000}", settings=POLICY)
    keys = [sentence.partition(" (")[0].rpartition(".")[2] for sentence in config.unmapped]
    assert keys == ["head_server", "be_strict", "shuffle"]
    assert config.unmapped[1] == (
        "math_with_judge.resources_servers.math_with_judge.be_strict (b.yaml): "
        "gym_llm/MathWithJudge-v0 has no such option; it is not used"
    )


def test_nemo_gyms_values_are_required():
    said = problem(NEMO_MODEL, NEMO_MATH)
    assert "policy_base_url is not given, and needed by policy_model.responses_api_models.openai_model" in said
    assert "policy_api_key is not given" in said
    assert "(a.yaml)" in said


def test_a_vllm_models_settings_are_mapped():
    text = """
policy_model:
  responses_api_models:
    vllm_model:
      entrypoint: app.py
      num_workers: 8
      base_url: [http://a/v1, http://b/v1]
      api_key: k
      model: m
      return_token_id_information: true
      uses_reasoning_parser: true
      uses_interleaved_reasoning: true
      chat_template_kwargs: {enable_thinking: false}
      extra_body: {top_k: 5}
"""
    config = load(text)
    engine = config.engines["policy_model"]
    assert engine.engine == "http://a/v1,http://b/v1"
    assert engine.kwargs == {
        "api": "chat",
        "model": "m",
        "api_key": "k",
        "token_ids": True,
        "extra_body": {"top_k": 5, "chat_template_kwargs": {"enable_thinking": False}},
    }
    assert engine.make().model == "m"
    assert config.unmapped == []
    config = load(text + "      use_completions_api: true\n")
    kwargs = {"api": "completions", "model": "m", "api_key": "k", "extra_body": {"top_k": 5}}
    assert config.engines["policy_model"].kwargs == kwargs
    assert "chat_template_kwargs (a.yaml)" in config.unmapped[0] and len(config.unmapped) == 1


LOCAL = """
Qwen3-30B-A3B-Thinking-2507:
  responses_api_models:
    local_vllm_model:
      entrypoint: app.py
      model: Qwen/Qwen3-30B-A3B-Thinking-2507
      return_token_id_information: false
      uses_reasoning_parser: true
      replace_developer_role_with_system: true
      is_responses_native: false
      sequential_reasoning_allowed: true
      debug: true
      extra_body: {temperature: 0.6, max_output_tokens: null}
      chat_template_kwargs: {enable_thinking: true}
      hf_home: /models
      vllm_serve_env_vars: {VLLM_RAY_DP_PACK_STRATEGY: strict, HF_TOKEN: hf-0123456789}
      vllm_serve_kwargs:
        model: other
        port: 8000
        data_parallel_size: 1
        tensor_parallel_size: 8
        enable_auto_tool_choice: true
        tool_call_parser: pythonic
        chat_template: theirs.jinja
        reasoning_parser: deepseek_r1
        max_log_len: null
        model_loader_extra_config: {enable_multithread_load: true, num_threads: 16}
mcqa:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: mcqa_resources}
      model_server: {type: responses_api_models, name: Qwen3-30B-A3B-Thinking-2507}
mcqa_resources: {resources_servers: {mcqa: {entrypoint: app.py}}}
"""


def test_a_local_vllm_model_is_vllm_in_this_process():
    config = load(LOCAL)
    assert config.engine_of("mcqa") == EngineSection(
        engine="vllm:Qwen/Qwen3-30B-A3B-Thinking-2507",
        kwargs={
            "download_dir": "/models/hub",
            "data_parallel_size": 1,
            "tensor_parallel_size": 8,
            "reasoning_parser": "deepseek_r1",
            "model_loader_extra_config": {"enable_multithread_load": True, "num_threads": 16},
        },
    )
    section = "Qwen3-30B-A3B-Thinking-2507.responses_api_models.local_vllm_model"
    assert [sentence.removeprefix(f"{section}.").replace(" (a.yaml)", "") for sentence in config.unmapped] == [
        "vllm_serve_kwargs.tool_call_parser: give --tool-call-parser pythonic to the command; here it changes nothing",
        "vllm_serve_kwargs.chat_template: it is for vLLM's HTTP server; here it changes nothing",
        "vllm_serve_env_vars.VLLM_RAY_DP_PACK_STRATEGY: set it in the environment of the command; "
        "here it changes nothing",
        "vllm_serve_env_vars.HF_TOKEN: set it in the environment of the command; here it changes nothing",
        "extra_body: give it in the tasks' `responses_create_params`; here it changes nothing",
        "chat_template_kwargs: give it in the tasks' `responses_create_params`; here it changes nothing",
    ]


def test_what_is_off_in_nemo_gym_and_always_done_here_is_listed():
    text = """
policy_model:
  responses_api_models:
    vllm_model:
      base_url: http://a/v1
      api_key: k
      model: m
      return_token_id_information: true
      uses_reasoning_parser: true
      uses_interleaved_reasoning: false
      sequential_reasoning_allowed: false
      is_responses_native: false
      render_chat_template: false
"""
    always = "(a.yaml): false changes nothing: here this is always done"
    prefix = "policy_model.responses_api_models.vllm_model"
    expected = [f"{prefix}.{key} {always}" for key in ("uses_interleaved_reasoning", "sequential_reasoning_allowed")]
    assert load(text).unmapped == expected
    config = load(text + "      use_completions_api: true\n      tokenizer: t\n")
    assert config.unmapped == [*expected, f"{prefix}.render_chat_template {always}"]
    assert config.engines["policy_model"].kwargs["tokenizer"] == "t"
    config = load(LOCAL.replace("uses_reasoning_parser: true", "uses_reasoning_parser: false"))
    assert any("uses_reasoning_parser (a.yaml): false changes nothing" in sentence for sentence in config.unmapped)


def test_a_short_local_vllm_model_needs_a_model():
    config = load(
        "m: {responses_api_models: {local_vllm_model: {model: '${name}', hf_home: null, extra_body: {top_k: null}}}}",
        settings=("+name=Qwen/Qwen3-4B",),
    )
    assert (config.engines["m"], config.unmapped) == (EngineSection(engine="vllm:Qwen/Qwen3-4B"), [])
    for wrong in ("{entrypoint: app.py}", "{model: m, vllm_serve_kwargs: [1]}"):
        said = problem(f"m: {{responses_api_models: {{local_vllm_model: {wrong}}}}}")
        assert "m.responses_api_models.local_vllm_model (a.yaml): a local_vllm_model has `model: NAME`" in said


def test_a_reference_to_a_server_that_is_not_there_gets_a_hint():
    said = problem(
        NEMO_MODEL,
        NEMO_MATH.replace("name: policy_model}\n      datasets", "name: policy_modle}\n      datasets"),
        settings=POLICY,
    )
    assert (
        "simple_agent.model_server.name (b.yaml): there is no section of responses_api_models called policy_modle"
        in said
    )
    assert "Did you mean policy_model?" in said


def test_the_name_of_a_resources_server_may_be_given_as_a_setting():
    text = NEMO_MATH.replace("name: math_with_judge}", "name: '???'}")
    name = "math_with_judge_simple_agent.responses_api_agents.simple_agent.resources_server.name"
    assert f"{name} is required (b.yaml)" in problem(NEMO_MODEL, text, settings=POLICY)
    config = load(NEMO_MODEL, text, settings=(*POLICY, f"+{name}=math_with_judge"))
    assert list(config.environments) == ["math_with_judge_simple_agent"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            NEMO_MATH.replace("    math_with_judge:\n", "    no_such_server:\n"),
            "there is no environment for no_such_server",
        ),
        (NEMO_MATH.replace("    simple_agent:\n", "    deep_agent:\n"), "there is no deep_agent"),
        (
            "m: {responses_api_models: {no_such_model: {model: m}}}",
            "there is no engine for a no_such_model",
        ),
        ("a: {responses_api_agents: {simple_agent: {entrypoint: app.py}}}", "it has no resources_server"),
    ],
)
def test_servers_that_have_no_counterpart_are_listed(text, said):
    config = load(NEMO_MODEL, text, settings=POLICY)
    assert any(said in sentence for sentence in config.unmapped)


def test_a_resources_server_without_an_agent_is_an_environment():
    config = load("mcqa: {resources_servers: {mcqa: {entrypoint: app.py, grading_mode: null, domain: knowledge}}}")
    assert config.environments["mcqa"].env == "gym_llm/MultipleChoice-v0"
    assert config.unmapped == []


def test_options_of_a_resources_server_that_an_environment_has_as_arguments_are_mapped():
    mcqa = """
mcqa: {resources_servers: {mcqa: {entrypoint: app.py, grading_mode: lenient_answer_colon_md, other: 1}}}
agent: {responses_api_agents: {simple_agent: {max_steps: 2, resources_server: {name: mcqa}}}}
"""
    config = load(mcqa)
    assert config.environments["agent"].kwargs == {"grading_mode": "lenient_answer_colon_md", "max_turns": 2}
    assert [sentence.partition(" (")[0] for sentence in config.unmapped] == ["mcqa.resources_servers.mcqa.other"]


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("math_with_judge", "MathWithJudge"),
        ("library_judge_math", "MathWithJudge"),
        ("simple_weather", "Weather"),
        ("stateful_counter", "Counter"),
        ("multineedle", "SynonymExtraction"),
        ("example_multi_turn_gymnasium", "FollowUp"),
    ],
)
def test_nemo_gyms_names_are_in_the_folders_of_the_environments(server, name):
    config = load(f"s: {{resources_servers: {{{server}: {{entrypoint: app.py}}}}}}")
    assert config.environments["s"].env == f"gym_llm/{name}-v0"


def test_resources_servers_are_known_by_the_environments_names_too():
    config = load("s: {resources_servers: {synonym_extraction: {entrypoint: app.py}}}")
    assert config.environments["s"].env == "gym_llm/SynonymExtraction-v0"


def test_a_malformed_server_is_an_error():
    said = problem("s: {resources_servers: {a: {}, b: {}}}\nt: {resources_servers: 3}")
    assert said.count("one of each") == 2


def test_what_is_printed_of_nemo_gyms_files_is_ours(capsys):
    files = ["--config", write("a.yaml", NEMO_MODEL), "--config", write("b.yaml", NEMO_MATH)]
    assert main(["config", *files, *POLICY]) == 0
    printed = capsys.readouterr().out
    assert "# not mapped: math_with_judge.resources_servers.math_with_judge.be_strict (b.yaml)" in printed
    assert "sk-0123456789" not in printed
    assert load_config([write("printed.yaml", printed)]).environments["math_with_judge_simple_agent"].domain == "math"
