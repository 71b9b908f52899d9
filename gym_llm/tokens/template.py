"""A request as the text that a model is shown: what the chat template of its tokenizer makes of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from gym_llm.errors import EngineError
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.tokens.template_profile import TemplateProfile, message_form
from gym_llm.types import Request
from gym_llm.utils.text import excerpt

_NO_VARIABLES = frozenset(
    {"add_generation_prompt", "chat_template", "continue_final_message", "conversation", "messages"}
    | {"tokenize", "tools"}
)  # arguments of `apply_chat_template`, and what it gives a template itself


def chat_prompt(request: Request, tokenizer: Any) -> str:
    """Render the prompt of a request with a tokenizer's chat template; it ends with the start of the model's turn.

    Raises:
        EngineError: If a chat cannot express an item of the request, or it has an image or a file, or its
            `chat_template_kwargs` are invalid.
        jinja2.TemplateError: If the template objects to the conversation.
    """
    chat = request_to_chat(request)
    template, form = _forms.get(tokenizer) or (None, None)
    if form is None or template != tokenizer.chat_template:
        form = message_form(tokenizer)
        _forms[tokenizer] = tokenizer.chat_template, form
    return render(chat["messages"], template_variables(chat), tokenizer, form)


_forms: WeakKeyDictionary[Any, tuple[Any, TemplateProfile]] = WeakKeyDictionary()


def template_variables(chat: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of a chat template besides the messages.

    These are the tools (unless `tool_choice` is "none"), the values in `chat_template_kwargs`, and `reasoning_effort`,
    which also sets `enable_thinking` if `chat_template_kwargs` do not. A vLLM server renders the same request the same
    way (vllm/entrypoints/openai/chat_completion/protocol.py, `build_chat_params`) if it is started with
    `--exclude-tools-when-tool-choice-none`. The chat is a request from `request_to_chat`.

    Raises:
        EngineError: If `chat_template_kwargs` is not an object, or has a name that templates reserve.

    >>> template_variables({"reasoning_effort": "none"})
    {'tools': None, 'enable_thinking': False, 'reasoning_effort': 'none'}
    """
    kwargs = chat.get("chat_template_kwargs") or {}
    if not isinstance(kwargs, dict):
        example = '{"enable_thinking": false}'
        raise EngineError(f"chat_template_kwargs is an object such as {example}, got {excerpt(kwargs, 80)}.")
    if wrong := _NO_VARIABLES & kwargs.keys():
        raise EngineError(f"{min(wrong)} in chat_template_kwargs is not a variable of the chat template.")
    effort = chat.get("reasoning_effort")
    if effort is not None:
        kwargs = {"enable_thinking": effort != "none", **kwargs, "reasoning_effort": effort}
    return {"tools": None if chat.get("tool_choice") == "none" else chat.get("tools"), **kwargs}


def render(messages: list[dict[str, Any]], variables: dict[str, Any], tokenizer: Any, form: TemplateProfile) -> str:
    """The prompt for chat messages, given `template_variables` and the template's form; see `chat_prompt`."""
    conversation = form.of(messages)
    options = {"add_generation_prompt": True, "tokenize": False, **variables}
    apply: Callable[[list[dict[str, Any]]], str] = functools.partial(tokenizer.apply_chat_template, **options)
    try:
        return apply(conversation)
    except Exception:
        # Some templates (GLM's, Qwen3-Coder's) go through a call's arguments and fail if these are no JSON object.
        # What the model wrote is not to end the episode: it is shown as an argument.
        with_objects = form.of(messages, objects_only=True)
        if with_objects == conversation:
            raise
        return apply(with_objects)
