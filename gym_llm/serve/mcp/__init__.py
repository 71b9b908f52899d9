"""Environments over MCP: an episode's tools, `submit` for the answer, and `reset` for a task.

Each client has a session of its own, which it is given in one of three ways:

- by its handshake (revisions up to 2025-11-25): the `Mcp-Session-Id` of its headers;
- by calling `reset` without one, as the stateless revision (2026-07-28) has to: `session` of the structured result is
  what it sends from then on, as the header `X-NeMo-Gym-Session-Token` or in `_meta`, as `gym-llm/session`;
- by another wire that has begun the episode and hands its client a token for it: NeMo Gym's.

An address that names a task (`/mcp?task_index=3`, `/mcp?seed=7`) begins it at once, and has no `reset`: a model cannot
look for an easier one.
"""

from gym_llm.serve.mcp.mcp_frontend import McpFrontend

__all__ = ["McpFrontend"]
