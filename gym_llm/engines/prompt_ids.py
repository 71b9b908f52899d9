"""Prompts as token ids, for engines that build them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.records.failures import reason
from gym_llm.tokens.prompt_tokens import History, PromptTokens
from gym_llm.types import Request
from gym_llm.utils.extras import install


def check_model(model: str, history: History) -> None:
    """Raise a ValueError if the model is not a name or folder, or the history is not a `History`."""
    if not isinstance(model, str) or not model:
        raise ValueError(f"model is a Hugging Face model name or a folder, e.g. 'Qwen/Qwen3-4B'; got {model!r}.")
    if history not in get_args(History):
        raise ValueError(f"history is 'template' or 'append'; got {history!r}.")


def check_folder(model: str) -> None:
    """Raise an EngineUnavailable where a model is named by a path and nothing is there: no hub has such names."""
    if (model.startswith((".", "/", "~")) or model.count("/") > 1) and not Path(model).is_dir():
        raise EngineUnavailable(f"Cannot load the model {model}: there is no such folder.")


def hub_options(name: str) -> dict[str, Any]:
    """Return the options of `from_pretrained` for a folder or a name: what is here already, if no hub answers.

    The loaders retry a hub that does not answer for a minute, also for a name that no hub has.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError

    if Path(name).is_dir():
        return {}
    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"))
        answers = True
    except HfHubHTTPError as error:
        answers = error.response.status_code < 500
    except Exception:  # of its HTTP library; the loader says what is missing
        answers = False
    return {} if answers else {"local_files_only": True}


def prompt_tokens(tokenizer: Any, ends: int | list[int] | None, history: History, *, what: str) -> PromptTokens:
    """Return the builder of a model's prompts.

    Args:
        tokenizer: The model's tokenizer; its end token ends turns.
        ends: `eos_token_id` of the generation config: further ends of turns.
        history: See `PromptTokens`.
        what: The model's name in error messages, e.g. `model Qwen/Qwen3-4B`.

    Raises:
        EngineUnavailable: If the tokenizer has no chat template.
    """
    if tokenizer.chat_template is None:
        raise EngineUnavailable(f"The {what} has no chat template: use an instruction-tuned one.")
    stop_tokens = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}
    return PromptTokens(tokenizer, stop_token_ids=stop_tokens, history=history)


def load_prompt_tokens(name: str, history: History, *, template: str | None = None) -> PromptTokens:
    """Return `prompt_tokens` for a model on a server; loads the tokenizer of this name or folder.

    Args:
        name: The name or folder.
        history: See `PromptTokens`.
        template: A chat template in place of its own.

    Raises:
        EngineUnavailable: If transformers is missing, or the tokenizer cannot be loaded or has no chat template.
    """
    try:
        from transformers import AutoTokenizer, GenerationConfig
    except ImportError as error:
        raise EngineUnavailable(f"api='completions' needs {error.name}: {install('local')}.") from None
    options = hub_options(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
    except (OSError, ValueError) as error:
        reason = "it is no folder, and no hub answers" if options else str(error).strip().split("\n")[0]
        raise EngineUnavailable(f"Cannot load the tokenizer {name} (tokenizer= names another): {reason}") from error
    if template is not None:
        tokenizer.chat_template = template
    try:
        ends = GenerationConfig.from_pretrained(name, **options).eos_token_id
    except OSError:
        ends = None  # a model need not have one
    return prompt_tokens(tokenizer, ends, history, what=f"tokenizer {name}")


def build_prompt(prompts: PromptTokens, request: Request, *, conversation: str, model: str) -> list[int]:
    """Return the token ids of a request's prompt; see `PromptTokens.build`.

    Raises:
        EngineError: If the prompt cannot be built.
    """
    try:
        return prompts.build(request, conversation=conversation)
    except EngineError:
        raise
    except Exception as error:
        raise objection(model, error) from error


def objection(model: str, error: Exception) -> EngineError:
    """The error of a request to which a template or a tokenizer objects."""
    return EngineError(f"{model} cannot read this request: {reason(error)}")
