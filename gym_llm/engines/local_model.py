"""Loading a Hugging Face model and its tokenizer, and checking that this package can sample from it."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from gym_llm.engines.prompt_ids import check_folder, hub_options
from gym_llm.errors import EngineUnavailable


def load_model(path: str, device: str, dtype: str, *, name: str) -> tuple[Any, Any]:
    """Load a model, in evaluation mode, and its tokenizer.

    Args:
        path: A folder, or a name on the hub.
        device: A torch device, or `"auto"`: a GPU if there is one.
        dtype: A torch dtype's name, or `"auto"`: the checkpoint's on a GPU, float32 on the CPU.
        name: The model's name in error messages.

    Raises:
        EngineUnavailable: If it cannot be loaded.
    """
    check_folder(path)
    bars = transformers.logging.is_progress_bar_enabled()
    transformers.logging.disable_progress_bar()  # the caller draws its own
    try:
        automatic = "cuda" if torch.cuda.is_available() else "cpu"
        place = torch.device(automatic if device == "auto" else device)
        kind = ("float32" if place.type == "cpu" else "auto") if dtype == "auto" else dtype
        options = hub_options(path)
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, **options)
        options |= {"dtype": kind, "attn_implementation": "sdpa"}
        model = transformers.AutoModelForCausalLM.from_pretrained(path, **options)
        model.to(place)  # type: ignore[arg-type]
    except (OSError, ValueError, RuntimeError, AttributeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise EngineUnavailable(f"Cannot load the model {name}: {reason}") from error
    finally:
        if bars:
            transformers.logging.enable_progress_bar()
    return model.eval(), tokenizer


def check_attention(model: Any, *, name: str) -> int:
    """Check that a model has SDPA attention in every layer; return the length of its context.

    Raises:
        EngineUnavailable: If it has not.
    """
    config = model.config.get_text_config()
    if config._attn_implementation != "sdpa":
        raise EngineUnavailable(
            f"The model {name} was loaded with {config._attn_implementation} attention: load it with "
            "attn_implementation='sdpa'."
        )
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds - {"full_attention", "sliding_attention"}:
        raise EngineUnavailable(
            f"The model {name} has layers without attention ({', '.join(sorted(kinds))}): serve it with vLLM."
        )
    window = getattr(config, "sliding_window", None)
    return min(config.max_position_embeddings, window or config.max_position_embeddings)
