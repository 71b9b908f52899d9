"""Writes the two datasets of this example: tasks to train on, and others to be tested with."""

from gym_llm.trainers.verl import write_dataset

write_dataset("train.parquet", "gym_llm/Arithmetic-v0", limit=2048)
write_dataset("test.parquet", "gym_llm/Arithmetic-v0", limit=128, seed=1)
