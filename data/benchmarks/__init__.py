"""The recipes of benchmarks: each module's `BENCHMARKS`. `gym_llm.data.recipes.catalogue` finds them by themselves."""
