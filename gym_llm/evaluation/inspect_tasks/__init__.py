"""Benchmarks and environments as tasks of Inspect AI: `inspect eval gym_llm/gsm8k`. It needs the package inspect-ai."""
