"""NeMo Gym's agent composition: an agent without a resources server plays in the place of the others.

Upstream's rules (0.7.0): `nemo_gym/global_config.py`, `compose_unbound_agent`. A section whose `resources_server.name`
is `???` replaces every other agent. The new agent keeps the old one's resources server, model server and datasets, and
its section is named after the new agent. A resources server may name `allowed_agents` and `allowed_model_types`.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from gym_llm.errors import ConfigError

AGENTS, ENVIRONMENTS = "responses_api_agents", "environment_servers"
_MODELS, _RESOURCES = "responses_api_models", "resources_servers"
_BINDINGS = ("resources_server", "model_server", "datasets")


class _Agent(NamedTuple):
    section: str
    type: str
    values: dict[str, Any]

    @property
    def resources(self) -> str | None:
        """The name of its resources server; `???` if it is open, None if it has none."""
        return _name(self.values.get("resources_server"))


def swap_agents(values: dict[str, Any], places: dict[str, str]) -> None:
    """Play the agent whose resources server is open in the place of all others; changes both arguments.

    Raises:
        ConfigError: If there are several such agents, a name is taken, or a resources server does not allow its agent
            or model.
    """
    agents = list(_agents(values))
    sources = [agent for agent in agents if agent.resources == "???"]
    targets = [agent for agent in agents if agent.resources not in (None, "???")]
    if len(sources) > 1:
        names = ", ".join(sorted(agent.section for agent in sources))
        raise ConfigError(f"Only one agent may leave its resources_server open, got {names}.")
    if sources and targets:
        (source,) = sources
        _check_allowed(values, [(target, source.type) for target in targets], "allowed_agents")
        del values[source.section]
        renamed = {target.section: _replace(values, places, target, source) for target in targets}
        for _, reference in _agents_of_environments(values):
            reference["name"] = renamed.get(str(reference.get("name")), reference.get("name"))
    models = [(agent, model) for agent in _agents(values) if (model := _model_type(values, agent))]
    _check_allowed(values, models, "allowed_model_types")
    sections = {agent.section for agent in _agents(values) if "entrypoint" in agent.values}
    for key, reference in _agents_of_environments(values):
        if reference.get("name") not in sections | {"???"}:
            raise ConfigError(f"{key}.name must be an agent, got {reference.get('name')}.")


def _replace(values: dict[str, Any], places: dict[str, str], target: _Agent, source: _Agent) -> str:
    name = _new_name(target, source.type)
    section = values.pop(target.section)
    if name in values:
        raise ConfigError(f"The agent of {target.section} becomes {name}, which is the name of another section.")
    agent = deepcopy(source.values) | {key: target.values[key] for key in _BINDINGS if key in target.values}
    values[name] = {**section, AGENTS: {source.type: agent}}
    old, new = f"{target.section}.{AGENTS}.{target.type}.", f"{name}.{AGENTS}.{source.type}."
    for key, place in list(places.items()):
        if key.startswith(old):
            places[new + key.removeprefix(old)] = place
    return name


def _agents_of_environments(values: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The references of environment servers to agents, with their dotted keys."""
    for section, value in values.items():
        servers = value.get(ENVIRONMENTS) if isinstance(value, dict) else None
        for kind, server in (servers if isinstance(servers, dict) else {}).items():
            for field, reference in (server if isinstance(server, dict) else {}).items():
                types = (AGENTS, None) if field == "agent_server" else (AGENTS,)
                if isinstance(reference, dict) and reference.get("type") in types:
                    yield f"{section}.{ENVIRONMENTS}.{kind}.{field}", reference


def _new_name(target: _Agent, agent_type: str) -> str:
    stem = target.section.removesuffix(f"_{target.type}").removesuffix(target.type).rstrip("_")
    if stem == target.section:
        stem = target.section.removesuffix("_agent").rstrip("_")
    return f"{stem}_{agent_type}" if stem else agent_type


def _agents(values: dict[str, Any]) -> Iterator[_Agent]:
    for name, section in values.items():
        agents = section.get(AGENTS) if isinstance(section, dict) else None
        if isinstance(agents, dict) and len(agents) == 1:
            ((agent_type, agent),) = agents.items()
            if isinstance(agent, dict):
                yield _Agent(str(name), str(agent_type), agent)


def _name(reference: Any) -> str | None:
    name = reference.get("name") if isinstance(reference, dict) else reference
    return name if isinstance(name, str) else None


def _only(values: dict[str, Any], section: str | None, kind: str) -> tuple[str, Any]:
    servers = (values.get(section or "") or {}).get(kind) if isinstance(values.get(section or ""), dict) else None
    return next(iter(servers.items())) if isinstance(servers, dict) and len(servers) == 1 else ("", None)


def _model_type(values: dict[str, Any], agent: _Agent) -> str:
    model = _only(values, _name(agent.values.get("model_server")), _MODELS)[0]
    return "" if model == "dummy_model" else model


def _check_allowed(values: dict[str, Any], pairs: list[tuple[_Agent, str]], key: str) -> None:
    for agent, used in pairs:
        server = _only(values, agent.resources, _RESOURCES)[1]
        allowed = server.get(key) if isinstance(server, dict) else None
        allowed = [allowed] if isinstance(allowed, str) else allowed
        if allowed and used not in allowed:
            raise ConfigError(f"{agent.section} has {used}, but {agent.resources} allows {', '.join(allowed)}.")
