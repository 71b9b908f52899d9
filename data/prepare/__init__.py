"""From raw rows to a training set: every row checked, statistics computed and compared, files collated."""

from gym_llm.data.prepare.prepare import EnvDataset, Preparation, Show, prepare_data

__all__ = ["EnvDataset", "Preparation", "Show", "prepare_data"]
