"""Reading and writing: task sources, JSON Lines, rollout files."""
