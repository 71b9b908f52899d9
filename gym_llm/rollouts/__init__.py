"""Whole episodes, many at once: `async for record in gym_llm.rollout(...)`."""
