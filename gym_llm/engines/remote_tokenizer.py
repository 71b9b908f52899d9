"""Prompts as token ids for a model that is served elsewhere."""

from __future__ import annotations

from gym_llm.chat.prompt_tokens import History, PromptTokens
from gym_llm.errors import EngineUnavailable


def load_prompt_tokens(name: str, history: History) -> PromptTokens:
    """Load a served model's tokenizer and chat template.

    Args:
        name: A Hugging Face model name or a folder.
        history: See `PromptTokens`.

    Raises:
        EngineUnavailable: If transformers is missing, or the tokenizer cannot be loaded or has no chat template.
    """
    try:
        from transformers import AutoTokenizer, GenerationConfig
    except ImportError as error:
        raise EngineUnavailable(f"api='completions' needs {error.name}: pip install 'gym-llm[local]'.") from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise EngineUnavailable(f"Cannot load the tokenizer {name} (tokenizer= names another): {reason}") from error
    if tokenizer.chat_template is None:
        raise EngineUnavailable(f"The tokenizer {name} has no chat template: use an instruction-tuned model's.")
    ends: int | list[int] | None = None
    try:
        ends = GenerationConfig.from_pretrained(name).eos_token_id
    except OSError:
        pass  # a model need not have one
    stop_tokens = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}
    return PromptTokens(tokenizer, stop_token_ids=stop_tokens, history=history)
