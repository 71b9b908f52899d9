"""Prices of tokens: a small YAML file, or a dict of the same shape."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from gym_llm.errors import DataError

Prices: TypeAlias = Mapping[str, Mapping[str, float]]
"""Dollars per million tokens, by model: `input`, `output`, and `cached_input` where that has a price of its own."""

_EXPECTED = "expected dollars per million tokens, {input: 0.5, output: 1.5}"


def read_prices(prices: str | os.PathLike[str] | Mapping[str, Any] | None) -> dict[str, dict[str, float]]:
    """Read the prices of a million tokens in dollars, by model: `Qwen/Qwen3-4B: {input: 0.1, output: 0.4}`.

    `cached_input` is the price of input tokens from the server's cache. Without it they cost as much as others.

    Args:
        prices: A YAML file, or what it would say; None for no prices.

    Raises:
        DataError: If the file cannot be read, or a price is invalid.

    >>> read_prices({"m": {"input": 1, "output": 2}})
    {'m': {'input': 1.0, 'output': 2.0}}
    """
    if prices is None:
        return {}
    place = "prices"
    if not isinstance(prices, Mapping):
        place, prices = str(prices), _read_yaml(Path(prices))
    return {str(model): _price(f"{place}: {model}", price) for model, price in prices.items()}


def _read_yaml(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        value = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DataError(f"{path} is not a table of prices: expected YAML such as `MODEL: {{input: 0.5, output: 1.5}}`.")
    return value


def dollars(price: Mapping[str, float], input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
    """Return the price of tokens in dollars.

    Args:
        price: The model's.
        input_tokens: Number of tokens given to the model, cached ones included.
        output_tokens: Number of generated tokens.
        cached_tokens: Number of input tokens that the server had in its cache.

    >>> dollars({"input": 2.0, "output": 8.0, "cached_input": 0.5}, 1_000_000, 100_000, 800_000)
    1.6
    """
    whole, cached = price["input"], price.get("cached_input", price["input"])
    cached_tokens = min(cached_tokens, input_tokens)
    return ((input_tokens - cached_tokens) * whole + cached_tokens * cached + output_tokens * price["output"]) / 1e6


def _price(place: str, price: Any) -> dict[str, float]:
    if not isinstance(price, Mapping) or set(price) - {"cached_input"} != {"input", "output"}:
        raise DataError(f"{place}: {_EXPECTED}, got {price!r:.80}.")
    for name, value in price.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise DataError(f"{place}.{name}: {_EXPECTED}, got {value!r:.80}.")
    return {name: float(price[name]) for name in ("input", "output", "cached_input") if name in price}
