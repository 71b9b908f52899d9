"""The executor that OpenRLHF creates in each of its vLLM actors to play samples."""

from gym_llm.trainers.openrlhf import EpisodeExecutor


class AgentExecutor(EpisodeExecutor):
    """Plays the environment that dataset.py writes the tasks of."""

    def __init__(self) -> None:
        super().__init__("gym_llm/Arithmetic-v0")
