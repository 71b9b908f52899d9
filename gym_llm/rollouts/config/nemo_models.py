"""NeMo Gym's model servers, read as the engines that do the same here."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gym_llm.rollouts.config.mapped import MEANINGLESS, MappedSections, Server

_AZURE = "azure_openai_model"
_APIS = {
    "openai_model": "responses",
    "litellm_model": "responses",
    "vllm_model": "chat",
    "inference_provider": "chat",
    _AZURE: "chat",
}
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
_GENRM = "genrm_model"
_PRINCIPLE = "supports_principle_role"
_LOCAL_PROXY = "local_vllm_model_proxy"
_TEMPLATE = ("extra_body", "chat_template_kwargs")
_COMPLETIONS = "use_completions_api"
_AZURE_V1 = "/openai/v1"
"""Azure's own API of OpenAI's form, where the key is a bearer token and a deployment's name is the model's."""
_REQUESTS = "num_concurrent_requests"
_ONLY_SERVED = {
    *("api_server_count", "chat_template", "chat_template_content_format", "default_chat_template_kwargs"),
    *("disable_uvicorn_access_log", "enable_log_outputs", "enable_prompt_tokens_details"),
    *("enable_server_load_tracking", "exclude_tools_when_tool_choice_none", "headless", "max_log_len", "middleware"),
    *("response_role", "return_tokens_as_token_ids", "root_path", "tool_call_parser", "tool_parser_plugin"),
    *("tool_server", "uvicorn_log_level"),
}
"""Arguments of `vllm serve` that are its HTTP server's, not its engine's (`vllm.entrypoints`, `FrontendArgs`)."""


_OPTIONS = {"genrm_responses_create_params": "judge_responses_create_params", "genrm_parse_retries": "judge_retries"}
_CHAT_NAMES = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}

_ALWAYS = {
    *("uses_reasoning_parser", "uses_interleaved_reasoning", "sequential_reasoning_allowed"),
    *("replace_developer_role_with_system", "enable_auto_tool_choice"),
}
"""What is always done here: nothing is lost with these where they are true."""

_OFF = {
    *("is_responses_native", "request_prompt_and_generation_token_ids", "propagate_context_overflow_errors"),
    *("preserve_reasoning_in_assistant_content", "continue_final_assistant_message", "supply_prefix_token_ids"),
    *("render_chat_template", _COMPLETIONS),
}
"""What a model does not do unless it is told to: nothing is lost where they are false."""


def map_model(server: Server, mapped: MappedSections) -> None:
    """Add the engine that a model server is."""
    if server.implementation in (_LOCAL, _GENRM):
        _map_local_model(server, mapped)
        return
    if server.implementation == _LOCAL_PROXY:
        reference = server.values.get("model_server")
        mapped.behind[server.name] = str(reference.get("name") if isinstance(reference, dict) else reference)
        _leave_out_template(server, server.values, mapped)
        done = {*_ALWAYS, *_TEMPLATE, "model_server", "return_token_id_information"}
        _leave_out_rest(server, server.values, done, mapped)
        return
    if server.implementation not in _APIS:
        playable = f"a vllm_model's URL and a {_LOCAL} can be played"
        mapped.leave_out(server.key, f"there is no engine for a {server.implementation}; {playable}")
        return
    options = {_MODEL_KEYS[key]: value for key, value in server.values.items() if key in _MODEL_KEYS}
    completions = server.implementation == "vllm_model" and server.values.get(_COMPLETIONS) is True
    done = {*_MODEL_KEYS, *_ALWAYS}
    always = set(_ALWAYS)
    if completions:  # prompts are made here, with token ids always, and a template's variables are the tasks' to give
        options.pop("token_ids", None)
        done = (done | {_COMPLETIONS, "render_chat_template", "tokenizer"}) - {"chat_template_kwargs"}
        always.add("render_chat_template")
        options.pop("chat_template_kwargs", None)
        options["tokenizer"] = server.values.get("tokenizer")
    url = options.pop("url", None)
    if server.implementation == _AZURE and isinstance(url, str) and url:
        url = url.rstrip("/") if url.rstrip("/").endswith(_AZURE_V1) else url.rstrip("/") + _AZURE_V1
        mapped.leave_out(f"{server.key}.default_query", f"{_AZURE_V1}, which is asked here, has no api-version")
        done = done | {"default_query"}
    if server.values.get(_REQUESTS):
        mapped.leave_out(f"{server.key}.{_REQUESTS}", "give the command --concurrency")
    _leave_out_rest(server, server.values, {*done, _REQUESTS}, mapped, always=always)
    if not url:
        mapped.leave_out(server.key, "it has no base URL, so it cannot be asked")
        return
    if template := options.pop("chat_template_kwargs", None):
        options["extra_body"] = {**(options.get("extra_body") or {}), "chat_template_kwargs": template}
    api = "completions" if completions else _APIS[server.implementation]
    kwargs = {"api": api, **{key: value for key, value in options.items() if value}}
    mapped.sections[server.name] = {"engine": ",".join(url) if isinstance(url, list) else url, "kwargs": kwargs}


def _map_local_model(server: Server, mapped: MappedSections) -> None:
    """Map a model that vLLM computes in this process: its engine takes the arguments of `vllm serve`."""
    values = dict(server.values)
    model, served = values.pop("model", None), values.pop("vllm_serve_kwargs", None) or {}
    if not model or not isinstance(served, dict):
        kind = server.implementation
        mapped.refuse(server.key, f"a {kind} has `model: NAME`, and `vllm_serve_kwargs` that are keys and values.")
        return

    def leave_out(key: str, why: str) -> None:
        mapped.leave_out(f"{server.key}.{key}", f"{why}; here it changes nothing")

    kwargs: dict[str, Any] = {}
    if home := values.pop("hf_home", None):
        kwargs["download_dir"] = f"{home}/hub"  # where Hugging Face keeps models below HF_HOME
    for key, value in served.items():
        if key in _ONLY_SERVED and value:
            parser = key == "tool_call_parser"
            why = f"give --tool-call-parser {value} to the command" if parser else "it is for vLLM's HTTP server"
            leave_out(f"vllm_serve_kwargs.{key}", why)
        elif value is not None and key not in {"model", *_ONLY_SERVED, *_ALWAYS, *MEANINGLESS}:
            kwargs[key] = value
    for key in values.pop("vllm_serve_env_vars", None) or {}:
        leave_out(f"vllm_serve_env_vars.{key}", "set it in the environment of the command")
    if server.implementation == _GENRM and values.pop(_PRINCIPLE, True) is False:
        leave_out(_PRINCIPLE, "leave out `use_principle` in the environment that asks it")
    _leave_out_template(server, values, mapped)
    for key in _TEMPLATE:
        values.pop(key, None)
    _leave_out_rest(server, values, {"return_token_id_information", *_ALWAYS}, mapped)  # token ids are always there
    mapped.sections[server.name] = {"engine": f"vllm:{model}", "kwargs": kwargs}


def _leave_out_template(server: Server, values: dict[str, Any], mapped: MappedSections) -> None:
    """Note the fields of a request that a local engine takes from the tasks only."""
    for key in _TEMPLATE:
        if any(value is not None for value in (values.get(key) or {}).values()):
            why = "give it in the tasks' `responses_create_params`; here it changes nothing"
            mapped.leave_out(f"{server.key}.{key}", why)


def _leave_out_rest(
    server: Server,
    values: dict[str, Any],
    done: set[str],
    mapped: MappedSections,
    *,
    always: Collection[str] = _ALWAYS,
) -> None:
    """Note what of a model's values changes nothing here: all but those that are done, and what is not set."""
    for key, value in values.items():
        if value is False and key in always:
            mapped.leave_out(f"{server.key}.{key}", "false changes nothing: here this is always done")
        elif value in (None, "", [], {}) or (value is False and key in _OFF):
            continue
        elif key not in (*done, *MEANINGLESS):
            mapped.leave_out(f"{server.key}.{key}", "it has no counterpart and changes nothing")


def named_as_here(key: str, value: Any) -> tuple[str, Any]:
    """Return an option of a server that asks a judge under the name, and in the form, that it has here.

    >>> named_as_here("judge_chat_create_params", {"messages": [], "max_tokens": 9})
    ('judge_responses_create_params', {'max_output_tokens': 9})
    >>> named_as_here("judge_max_attempts", 3)
    ('judge_retries', 2)
    """
    if key == "judge_chat_create_params" and isinstance(value, dict):
        fields = {_CHAT_NAMES.get(name, name): field for name, field in value.items() if name != "messages"}
        return "judge_responses_create_params", fields
    if key == "judge_max_attempts" and isinstance(value, int):
        return "judge_retries", max(0, value - 1)
    return _OPTIONS.get(key, key), value
