"""NeMo Gym's configurations: its servers, read as the environments and engines that do the same here.

Format: https://docs.nvidia.com/nemo/gym, "Configuration"; a section is `name: {server type: {implementation: {…}}}`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

from pydantic import ValidationError

from gym_llm.core.registry.classes import nemo_gym_names, own_values
from gym_llm.core.registry.ids import env_ids, parse_id
from gym_llm.data.files.datasets import DatasetConfig, License
from gym_llm.errors import DataError
from gym_llm.rollouts.config.compose import COMMAND_LINE, Composed
from gym_llm.rollouts.config.config_files import find_above
from gym_llm.rollouts.config.inherit import AGENTS, MODELS, RESOURCES, SERVER_TYPES
from gym_llm.rollouts.config.mapped import MEANINGLESS, MappedSections, Server
from gym_llm.rollouts.config.nemo_agents import limit_turns, map_agent_options, missing_agent
from gym_llm.rollouts.config.nemo_models import map_model, named_as_here
from gym_llm.utils.text import did_you_mean

_HEAD_SERVER = "head_server"
_REQUEST = "responses_create_params"
_MODEL_SERVER = "_model_server"
_GROUP_SIZE = "num_rollouts_per_prompt"
_JUDGES = {"genrm": "judge", "user_sim": "user"}
"""Arguments of ours that NeMo Gym's servers have under other names."""
_PLAYING_AGENTS = {"tau2": "gym_llm/Tau2-v0"}
"""Agents that have an environment of their own, and what plays it here."""
_PLAYED_SERVERS = {"indian_banking": "gym_llm/IndianBanking-v0", "tales": "gym_llm/Tales-v0"}
"""Servers whose own code plays here."""
_FILE_ENDINGS = ("_fpath", "_path", "_file")


def map_nemo_gym(foreign: dict[str, dict[str, Any]], composed: Composed) -> MappedSections:
    """Map sections of NeMo Gym, those with one of `SERVER_TYPES` as their key; `composed` is for messages."""
    mapped = MappedSections(composed)
    if isinstance(composed.values.get(_HEAD_SERVER), dict):
        mapped.ignored.add(_HEAD_SERVER)
        mapped.leave_out(_HEAD_SERVER, "there is no such server here")
    for key, sentence in composed.unresolved.items():
        mapped.leave_out(key, f"{sentence}; it is left out")
    servers = [server for name, value in foreign.items() for server in _servers(name, value, mapped)]
    for server in servers:
        _check_references(server, servers, mapped)
        if server.kind == MODELS:
            map_model(server, mapped)
    used = {_map_agent(agent, servers, mapped) for agent in servers if agent.kind == AGENTS}
    for server in servers:
        if server.kind == RESOURCES and server.name not in used and (env := _map_resources(server, mapped)):
            mapped.sections[server.name] = env
    request = composed.values.get(_REQUEST)
    if foreign and isinstance(request, dict):  # NeMo Gym sets it over the request of every row
        mapped.ignored.add(_REQUEST)
        for section in mapped.sections.values():
            if "env" in section:
                section["sampling"] = {key: value for key, value in request.items() if key != "input"}
    return mapped


def _servers(name: str, value: dict[str, Any], mapped: MappedSections) -> list[Server]:
    kinds = [kind for kind in value if kind in SERVER_TYPES]
    implementations = value[kinds[0]]
    if len(kinds) > 1 or not isinstance(implementations, dict) or len(implementations) != 1:
        mapped.refuse(name, f"a NeMo Gym section is `{kinds[0]}: {{implementation: {{…}}}}`, one of each.")
        return []
    ((implementation, values),) = implementations.items()
    if not isinstance(values, dict | None):
        mapped.refuse(f"{name}.{kinds[0]}.{implementation}", "an implementation's values are keys and values.")
        return []
    for key in value:
        if key not in kinds:
            mapped.leave_out(f"{name}.{key}", "a server has no such key")
    return [Server(name, kinds[0], implementation, values or {})]


def _check_references(server: Server, servers: list[Server], mapped: MappedSections) -> None:
    """Refuse values that name a server which is not there, or that cannot be resolved although they are used."""
    for key, value in server.values.items():
        if _is_reference(value):
            kind, name = value["type"], str(value["name"])
        elif server.kind == AGENTS and key in ("resources_server", "model_server") and value is not None:
            kind = RESOURCES if key == "resources_server" else MODELS
            name = str(value.get("name") if isinstance(value, dict) else value)
        else:
            continue
        names = [other.name for other in servers if other.kind == kind]
        if name not in names:
            hint = did_you_mean(name, names)
            mapped.refuse(f"{server.key}.{key}.name", f"there is no section of {kind} called {name}.{hint}")


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in SERVER_TYPES and isinstance(value.get("name"), str)


def _map_resources(server: Server, mapped: MappedSections) -> dict[str, Any] | None:
    env_id = env_of_server(server.implementation)
    if env_id is None:
        advice = "register one, or give a section `env: ID` of your own"
        mapped.leave_out(server.key, f"there is no environment for {server.implementation}; {advice}")
        return None
    kwargs: dict[str, Any] = {}
    more: dict[str, Any] = {}
    for key, value in server.values.items():
        if value is None or key == "domain" or key in MEANINGLESS:
            continue
        here, now = named_as_here(key, value)
        if _is_reference(value) and value["type"] == MODELS:
            _map_other_model(server, key, value["name"], env_id, kwargs, mapped)
        elif key in own_values(env_id, "nemo_gym_kwargs") or (
            here in _arguments(env_id) and (_is_of_a_judge(here) or env_id in _PLAYED_SERVERS.values())
        ):
            mapped.check_resolved(f"{server.key}.{key}")
            kwargs[here] = _found_file(f"{server.key}.{key}", key, now, mapped)
        elif key == _GROUP_SIZE and isinstance(value, int) and value > 1:
            more["repeats"] = value
        else:
            mapped.leave_out(f"{server.key}.{key}", f"{env_id} has no such option; it is not used")
    return {"env": env_id, "domain": server.values.get("domain"), "kwargs": kwargs, **more}


def _is_of_a_judge(argument: str) -> bool:
    return argument.startswith("judge_") or argument.endswith(f"_{_REQUEST}")


def _map_other_model(
    server: Server, key: str, name: str, env_id: str, kwargs: dict[str, Any], mapped: MappedSections
) -> None:
    """Map a model beside the policy's: `judge_model_server` is the environment's argument `judge`."""
    argument = key.removesuffix(_MODEL_SERVER)
    argument = _JUDGES.get(argument, argument)
    arguments = _arguments(env_id)
    argument = next((name for name in (argument, f"{argument}_engine", key) if name in arguments), "")
    if not argument:
        mapped.leave_out(f"{server.key}.{key}", f"{env_id} asks no other model; it changes nothing")
    elif (section := mapped.sections.get(mapped.behind.get(name, name))) is None:
        mapped.leave_out(f"{server.key}.{key}", f"{name} is no model that can be asked; give `{argument}` an engine")
    else:
        spec, options = section["engine"], section["kwargs"]
        kwargs[argument] = {"engine": spec, "kwargs": options} if options else spec


@cache
def _arguments(env_id: str) -> frozenset[str]:
    """The arguments of an environment's class; none where it cannot be imported, which whoever makes it says."""
    from gym_llm.core.registry.classes import env_arguments, env_class  # which imports it: only where it matters

    try:
        return env_arguments(env_class(env_id)) or frozenset()
    except DataError:
        return frozenset()


def _found_file(dotted: str, key: str, value: Any, mapped: MappedSections) -> Any:
    place = mapped.composed.places.get(dotted)
    if isinstance(value, str) and key.endswith(_FILE_ENDINGS) and place not in (None, COMMAND_LINE):
        return str(find_above(value, str(place)) or value)
    return value


def env_of_server(implementation: str) -> str | None:
    """The environment of a resources server: one that has its name in NeMo Gym, else one whose own name is alike.

    Args:
        implementation: The server's name in NeMo Gym, such as `mcqa`.

    Returns:
        The id, or None where no registered environment is meant.
    """
    ids = sorted(env_ids(), key=lambda env_id: env_id.startswith("gym_llm/"))  # of several the last: ours, the newest
    names = {name: env_id for env_id in ids for name in nemo_gym_names(env_id)}
    bare = {parse_id(env_id)[1].replace("_", "").lower(): env_id for env_id in ids}
    own = names.get(implementation) or bare.get(implementation.replace("_", "").lower())
    return own or _PLAYED_SERVERS.get(implementation)


def _map_agent(agent: Server, servers: list[Server], mapped: MappedSections) -> str | None:
    """Add the environment that an agent plays; returns its resources server's name."""
    resources = _referred(agent, "resources_server", RESOURCES, servers)
    model = _referred(agent, "model_server", MODELS, servers)
    if playing := _PLAYING_AGENTS.get(agent.implementation):
        own: dict[str, Any] = {"env": playing, "domain": agent.values.get("domain"), "kwargs": {}}
        _add_environment(agent, own, model, mapped)
        return None
    if (missing := missing_agent(agent)) is not None:
        mapped.leave_out(agent.key, missing)
    env = _map_resources(resources, mapped) if resources else None
    if resources is None or env is None:
        _check_datasets(agent, mapped)
        return resources.name if resources else None
    _add_environment(agent, env, model, mapped)
    return resources.name


def _add_environment(agent: Server, env: dict[str, Any], model: Server | None, mapped: MappedSections) -> None:
    """Add the section of an environment, with the agent's model, datasets and limits."""
    playing = agent.implementation in _PLAYING_AGENTS
    if model and (name := mapped.behind.get(model.name, model.name)) in mapped.sections:
        env["engine"] = name
    if playing:
        env["kwargs"] |= {"max_steps": steps} if (steps := agent.values.get("max_steps")) else {}
    else:
        limit_turns(agent, env["kwargs"])
    for key, value in agent.values.items():
        if key == "datasets":
            mapped.check_resolved(f"{agent.key}.datasets")
            env["datasets"] = [_map_dataset(agent, number, item, mapped) for number, item in enumerate(value or [])]
        elif playing and (key in ("domain", "max_steps") or value == {}):
            continue
        elif playing and key != "model_server" and _is_reference(value):
            _map_other_model(agent, key, value["name"], env["env"], env["kwargs"], mapped)
        elif map_agent_options(agent, key, value, env["kwargs"]):
            continue
        elif key not in ("resources_server", "model_server", *MEANINGLESS) and value is not None:
            mapped.leave_out(f"{agent.key}.{key}", "it has no counterpart and changes nothing")
    mapped.sections[agent.name] = env


def _check_datasets(agent: Server, mapped: MappedSections) -> None:
    """Refuse datasets that are wrong, where no environment plays them."""
    for number, value in enumerate(agent.values.get("datasets") or []):
        dataset = _map_dataset(agent, number, value, mapped)
        try:
            DatasetConfig.model_validate(dataset)
        except ValidationError as error:
            for problem in error.errors(include_url=False, include_context=False, include_input=False):
                key = ".".join(map(str, [agent.key, "datasets", number, *problem["loc"]]))
                mapped.refuse(key, problem["msg"].removeprefix("Value error, "))


def _referred(agent: Server, key: str, kind: str, servers: list[Server]) -> Server | None:
    value = agent.values.get(key)
    name = str(value.get("name") if isinstance(value, dict) else value)
    return next((server for server in servers if server.kind == kind and server.name == name), None)


def _map_dataset(agent: Server, number: int, value: Any, mapped: MappedSections) -> Any:
    if not isinstance(value, dict):
        return value
    key = f"{agent.key}.datasets.{number}"
    dataset = dict(value)
    if dataset.pop("prepare_script", None):
        mapped.leave_out(f"{key}.prepare_script", f"it is not run here; NeMo Gym's makes {value.get('jsonl_fpath')}")
    if dataset.get("type") == "benchmark" and dataset.get("license") not in (None, *get_args(License)):
        mapped.leave_out(f"{key}.license", f"{dataset.pop('license')} is not the name of a licence in NeMo Gym")
    for name in [name for name in dataset if name not in DatasetConfig.model_fields and name != "source"]:
        mapped.leave_out(f"{key}.{name}", "datasets have no such key")
        del dataset[name]
    return dataset
