"""Recipes: what a benchmark or a data set is, how its rows become tasks, and the prepared tasks in the cache."""
