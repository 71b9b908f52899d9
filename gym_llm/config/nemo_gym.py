"""NeMo Gym's configurations: its servers, read as the environments and engines that do the same here.

Format: https://docs.nvidia.com/nemo/gym, "Configuration"; a section is `name: {server type: {implementation: {…}}}`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from gym_llm.config.compose import Composed, read_layer
from gym_llm.data.files.datasets import DatasetConfig
from gym_llm.did_you_mean import did_you_mean
from gym_llm.errors import ConfigError
from gym_llm.registration import env_ids, parse_id, verifier_folder

MODELS, RESOURCES, AGENTS = "responses_api_models", "resources_servers", "responses_api_agents"
SERVER_TYPES = frozenset({MODELS, RESOURCES, AGENTS})

_APIS = {"openai_model": "responses", "vllm_model": "chat"}
_MODEL_KEYS = {
    "openai_base_url": "url",
    "base_url": "url",
    "openai_api_key": "api_key",
    "api_key": "api_key",
    "openai_model": "model",
    "openai_model_name": "model",
    "model": "model",
    "return_token_id_information": "token_ids",
    "extra_body": "extra_body",
    "chat_template_kwargs": "chat_template_kwargs",
}
_LOCAL = "local_vllm_model"
_ONLY_SERVED = {
    *("api_server_count", "chat_template", "chat_template_content_format", "default_chat_template_kwargs"),
    *("disable_uvicorn_access_log", "enable_log_outputs", "enable_prompt_tokens_details"),
    *("enable_server_load_tracking", "exclude_tools_when_tool_choice_none", "headless", "max_log_len", "middleware"),
    *("response_role", "return_tokens_as_token_ids", "root_path", "tool_call_parser", "tool_parser_plugin"),
    *("tool_server", "uvicorn_log_level"),
}
"""Arguments of `vllm serve` that are its HTTP server's, not its engine's (`vllm.entrypoints`, `FrontendArgs`)."""

_ALWAYS = {"uses_reasoning_parser", "replace_developer_role_with_system", "enable_auto_tool_choice"}
"""What is always done here: nothing is lost with these either."""

_MEANINGLESS = {
    "entrypoint",
    "host",
    "port",
    "num_workers",
    "description",
    "value",
    "verified",
    "verified_url",
    "debug",
}
"""Keys that say where a server runs or what a catalogue shows of it: nothing is lost with them."""

_GLOBALS = {"head_server"}


@dataclass
class Mapping:
    """What became of NeMo Gym's sections.

    Attributes:
        sections: Ours, by NeMo Gym's names: an agent is the environment it plays.
        ignored: Sections that mean nothing here.
        unmapped: What has no counterpart, one sentence each.
        problems: What is wrong.
    """

    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    ignored: set[str] = field(default_factory=set)
    unmapped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass
class _Server:
    name: str
    kind: str
    implementation: str
    values: dict[str, Any]

    @property
    def key(self) -> str:
        return f"{self.name}.{self.kind}.{self.implementation}"


def map_nemo_gym(foreign: dict[str, dict[str, Any]], composed: Composed) -> Mapping:
    """Map sections of NeMo Gym.

    Args:
        foreign: Sections with one of `SERVER_TYPES` as their key.
        composed: The whole configuration, for messages and its other sections.
    """
    mapping = Mapping(ignored={name for name in _GLOBALS if isinstance(composed.values.get(name), dict)})
    mapping.unmapped += [f"{composed.place(name)}: there is no such server here" for name in sorted(mapping.ignored)]
    servers = [server for name, value in foreign.items() for server in _servers(name, value, composed, mapping)]
    for server in servers:
        if server.kind == MODELS:
            _map_model(server, mapping, composed)
    resources = {server.name: server for server in servers if server.kind == RESOURCES}
    used = set()
    for agent in servers:
        if agent.kind == AGENTS:
            used.add(_map_agent(agent, servers, mapping, composed))
    for name, server in resources.items():
        if name not in used and (env := _map_resources(server, mapping, composed)):
            mapping.sections[name] = env
    return mapping


def _servers(name: str, value: dict[str, Any], composed: Composed, mapping: Mapping) -> list[_Server]:
    kinds = [kind for kind in value if kind in SERVER_TYPES]
    implementations = value[kinds[0]]
    if len(value) > 1 or not isinstance(implementations, dict) or len(implementations) != 1:
        mapping.problems.append(
            f"{composed.place(name)}: a NeMo Gym section is `{kinds[0]}: {{implementation: {{…}}}}`, one of each."
        )
        return []
    ((implementation, values),) = implementations.items()
    return [_Server(name, kinds[0], implementation, values or {})]


def _map_model(server: _Server, mapping: Mapping, composed: Composed) -> None:
    if server.implementation == _LOCAL:
        _map_local_model(server, mapping, composed)
        return
    if server.implementation not in _APIS:
        mapping.unmapped.append(
            f"{composed.place(server.key)}: there is no engine for a {server.implementation}; "
            f"a vllm_model's URL and a {_LOCAL} can be played"
        )
        return
    given: dict[str, Any] = {}
    for key, value in server.values.items():
        if key in _MODEL_KEYS:
            given[_MODEL_KEYS[key]] = value
        elif key not in _ALWAYS and value:
            _leave_out(server, key, mapping, composed)
    url = given.pop("url", None)
    if not url:
        mapping.problems.append(f"{composed.place(server.key)}: it has no base URL.")
        return
    if template := given.pop("chat_template_kwargs", None):
        given["extra_body"] = {**(given.get("extra_body") or {}), "chat_template_kwargs": template}
    kwargs = {"api": _APIS[server.implementation], **{key: value for key, value in given.items() if value}}
    mapping.sections[server.name] = {"engine": ",".join(url) if isinstance(url, list) else url, "kwargs": kwargs}


def _map_local_model(server: _Server, mapping: Mapping, composed: Composed) -> None:
    """Map a model that vLLM computes in this process: its engine takes the arguments of `vllm serve`."""
    values = dict(server.values)
    model, served = values.pop("model", None), values.pop("vllm_serve_kwargs", None) or {}
    if not model or not isinstance(served, dict):
        needed = "`model: NAME`, and `vllm_serve_kwargs` that are keys and values"
        mapping.problems.append(f"{composed.place(server.key)}: a {_LOCAL} has {needed}.")
        return

    def leave_out(key: str, why: str) -> None:
        mapping.unmapped.append(f"{composed.place(f'{server.key}.{key}')}: {why}; here it changes nothing")

    kwargs: dict[str, Any] = {}
    if home := values.pop("hf_home", None):
        kwargs["download_dir"] = f"{home}/hub"  # where Hugging Face keeps models below HF_HOME
    for key, value in served.items():
        if key in _ONLY_SERVED and value:
            parser = key == "tool_call_parser"
            why = f"give --tool-call-parser {value} to the command" if parser else "it is for vLLM's HTTP server"
            leave_out(f"vllm_serve_kwargs.{key}", why)
        elif value is not None and key not in {"model", *_ONLY_SERVED, *_ALWAYS, *_MEANINGLESS}:
            kwargs[key] = value
    for key in values.pop("vllm_serve_env_vars", None) or {}:
        leave_out(f"vllm_serve_env_vars.{key}", "set it in the environment of the command")
    for key in ("extra_body", "chat_template_kwargs"):
        if any(value is not None for value in (values.pop(key, None) or {}).values()):
            leave_out(key, "give it in the tasks' `responses_create_params`")
    for key, value in values.items():
        if key not in {"return_token_id_information", *_ALWAYS} and value:  # token ids are always there
            _leave_out(server, key, mapping, composed)
    mapping.sections[server.name] = {"engine": f"vllm:{model}", "kwargs": kwargs}


def _map_resources(server: _Server, mapping: Mapping, composed: Composed) -> dict[str, Any] | None:
    env_id = _env_id(server.implementation)
    if env_id is None:
        mapping.unmapped.append(
            f"{composed.place(server.key)}: there is no environment for {server.implementation}; "
            f"register one, or give a section `env: ID` of your own"
        )
        return None
    for key, value in server.values.items():
        if key != "domain" and value is not None:
            _leave_out(server, key, mapping, composed)
    return {"env": env_id, "domain": server.values.get("domain")}


def _env_id(implementation: str) -> str | None:
    """The environment of a resources server: one that has its name in NeMo Gym, else one whose own name is alike."""
    ids = sorted(env_ids(), key=lambda env_id: env_id.startswith("gym_llm/"))  # of several the last: ours, the newest
    names = {name: env_id for env_id in ids for name in nemo_gym_names(env_id)}
    bare = {parse_id(env_id)[1].replace("_", "").lower(): env_id for env_id in ids}
    return names.get(implementation) or bare.get(implementation.replace("_", "").lower())


@cache
def nemo_gym_names(env_id: str) -> tuple[str, ...]:
    """What NeMo Gym calls an environment, as the `config.yaml` beside its module says."""
    folder = verifier_folder(env_id)
    try:
        sections: Any = OmegaConf.to_container(read_layer(folder / "config.yaml")) if folder else {}
    except ConfigError:
        return ()
    return tuple(
        name
        for section in sections.values()
        if isinstance(section, dict) and section.get("env") == env_id
        for name in section.get("nemo_gym") or []
    )


def _map_agent(agent: _Server, servers: list[_Server], mapping: Mapping, composed: Composed) -> str | None:
    """Add the environment that an agent plays; returns its resources server's name."""
    resources = _referred(agent, "resources_server", RESOURCES, servers, mapping, composed)
    model = _referred(agent, "model_server", MODELS, servers, mapping, composed)
    if agent.implementation != "simple_agent":
        mapping.unmapped.append(
            f"{composed.place(agent.key)}: there is no {agent.implementation}; the environment is played turn by turn"
        )
    env = _map_resources(resources, mapping, composed) if resources else None
    if resources is None or env is None:
        return None if resources is None else resources.name
    if model and model.name in mapping.sections:
        env["engine"] = model.name
    for key, value in agent.values.items():
        if key == "datasets":
            env["datasets"] = [_map_dataset(agent, n, item, mapping, composed) for n, item in enumerate(value or [])]
        elif key == "max_steps" and value:
            env["kwargs"] = {"max_turns": value}
        elif key not in ("resources_server", "model_server") and value is not None:
            _leave_out(agent, key, mapping, composed)
    mapping.sections[agent.name] = env
    return resources.name


def _referred(
    agent: _Server, key: str, kind: str, servers: list[_Server], mapping: Mapping, composed: Composed
) -> _Server | None:
    reference = agent.values.get(key)
    if reference is None:
        if kind == RESOURCES:
            mapping.unmapped.append(f"{composed.place(agent.key)}: it has no {key}, so there is no environment to play")
        return None
    name = str(reference.get("name") if isinstance(reference, dict) else reference)
    known = {server.name: server for server in servers if server.kind == kind}
    if name not in known:
        mapping.problems.append(
            f"{composed.place(f'{agent.key}.{key}.name')}: there is no section of {kind} called {name}."
            f"{did_you_mean(name, known)}"
        )
    return known.get(name)


def _map_dataset(agent: _Server, number: int, value: Any, mapping: Mapping, composed: Composed) -> Any:
    if not isinstance(value, dict):
        return value
    for key in value:
        if key not in DatasetConfig.model_fields:
            mapping.unmapped.append(
                f"{composed.place(f'{agent.key}.datasets.{number}.{key}')}: datasets have no such key"
            )
    return {key: item for key, item in value.items() if key in DatasetConfig.model_fields}


def _leave_out(server: _Server, key: str, mapping: Mapping, composed: Composed) -> None:
    if key not in _MEANINGLESS:
        mapping.unmapped.append(f"{composed.place(f'{server.key}.{key}')}: it has no counterpart and changes nothing")
