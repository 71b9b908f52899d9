"""Responses <-> Chat Completions, chat templates, and prompts as token ids."""
