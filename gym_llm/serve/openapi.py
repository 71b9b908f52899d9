"""What OpenAPI says of a server's routes (https://spec.openapis.org/oas/v3.1.0)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gym_llm.serve.frontend import Route
from gym_llm.version import __version__

_PARAMETER = re.compile(r"\{(\w+)(?::[^{}]*)?\}")


def openapi(routes: Mapping[str, Sequence[Route]], *, title: str) -> dict[str, Any]:
    """The OpenAPI document of the routes that say something of themselves.

    Args:
        routes: By the prefix of their paths.
        title: The document's.
    """
    paths: dict[str, dict[str, Any]] = {
        "/health": {"get": {"summary": "Whether the server runs.", "responses": {"200": {"description": "It does."}}}}
    }
    for prefix, those in routes.items():
        for route in those:
            if route.operation is None:
                continue
            names = _PARAMETER.findall(route.path)
            parameters = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ]
            operation = {"responses": {"200": {"description": "The answer."}}, **route.operation}
            if parameters:
                operation["parameters"] = [*parameters, *operation.get("parameters", [])]
            path = prefix + _PARAMETER.sub(r"{\1}", route.path)
            paths.setdefault(path, {})[route.method.lower()] = operation
    return {"openapi": "3.1.0", "info": {"title": title, "version": __version__}, "paths": paths}
