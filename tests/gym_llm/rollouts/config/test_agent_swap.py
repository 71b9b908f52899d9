"""An agent without a resources server plays in the place of the others, as in NeMo Gym 0.7."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gym_llm.cli import main
from gym_llm.errors import ConfigError
from gym_llm.rollouts.config.agent_swap import swap_agents
from gym_llm.rollouts.config.load import NEMO_OPTIONS

OPEN = """
hermes:
  responses_api_agents: {hermes_agent: {resources_server: {type: resources_servers, name: '???'}, entrypoint: a}}
"""
WEATHER = """
policy: {responses_api_models: {openai_model: {}}}
weather: {resources_servers: {example_single_tool_call: {}}}
weather_simple_agent:
  responses_api_agents:
    simple_agent: {resources_server: {name: weather}, model_server: {name: policy}, datasets: [1], entrypoint: b}
served: {environment_servers: {legacy_agent: {agent_server: {name: weather_simple_agent}}}}
"""


def swapped(text: str) -> dict[str, Any]:
    values = yaml.safe_load(text)
    swap_agents(values, {})
    return values


def test_the_open_agent_takes_the_bindings_of_the_others() -> None:
    values = swapped(OPEN + WEATHER)
    assert "hermes" not in values and "weather_simple_agent" not in values
    bindings = {"resources_server": {"name": "weather"}, "model_server": {"name": "policy"}, "datasets": [1]}
    assert values["weather_hermes_agent"] == {"responses_api_agents": {"hermes_agent": {"entrypoint": "a", **bindings}}}
    assert values["served"]["environment_servers"]["legacy_agent"]["agent_server"] == {"name": "weather_hermes_agent"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OPEN + OPEN.replace("hermes:", "second:") + WEATHER, "Only one agent"),
        (OPEN + WEATHER + "weather_hermes_agent: {env: x}", "name of another section"),
        (OPEN + WEATHER.replace("call: {}", "call: {allowed_agents: [simple_agent]}"), "allows simple_agent"),
        (WEATHER.replace("call: {}", "call: {allowed_model_types: vllm_model}"), "allows vllm_model"),
        (WEATHER.replace("name: weather_simple", "name: lost"), "must be an agent, got lost_agent"),
    ],
)
def test_agents_that_do_not_fit_are_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        swapped(text)


def test_nothing_changes_without_an_open_agent() -> None:
    assert swapped(WEATHER) == yaml.safe_load(WEATHER)
    assert swapped(OPEN) == yaml.safe_load(OPEN)


@pytest.mark.parametrize("name", [*NEMO_OPTIONS, "limits", "anything"])
def test_settings_that_nothing_reads_are_refused_by_name(
    name: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("sums: {env: gym_llm/Arithmetic-v0}")
    assert main(["rollout", f"+config_paths=[{file}]", f"+{name}=1"]) == 2
    assert (
        f"{name} (the command line): nothing reads it here. {NEMO_OPTIONS.get(name, '')}".rstrip()
        in capsys.readouterr().err
    )


def test_merged_sections_are_printed_as_nemo_gym_sees_them(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(OPEN + WEATHER)
    assert main(["config", "--nemo", "--config", str(file)]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == swapped(OPEN + WEATHER)
