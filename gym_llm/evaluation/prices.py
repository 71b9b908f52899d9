"""Prices of tokens: a small YAML file, or a dict of the same shape."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gym_llm.errors import DataError

_EXPECTED = "expected dollars per million tokens, {input: 0.5, output: 1.5}"


def read_prices(prices: str | os.PathLike[str] | Mapping[str, Any] | None) -> dict[str, dict[str, float]]:
    """Read the prices of a million tokens in dollars, by model: `Qwen/Qwen3-4B: {input: 0.1, output: 0.4}`.

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
        raise DataError(f"{path} is no table of prices: expected YAML such as `MODEL: {{input: 0.5, output: 1.5}}`.")
    return value


def _price(place: str, price: Any) -> dict[str, float]:
    if not isinstance(price, Mapping) or set(price) != {"input", "output"}:
        raise DataError(f"{place}: {_EXPECTED}, got {price!r:.80}.")
    for name, value in price.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise DataError(f"{place}.{name}: {_EXPECTED}, got {value!r:.80}.")
    return {name: float(price[name]) for name in ("input", "output")}
