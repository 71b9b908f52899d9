"""The function that plays slime's samples: `--custom-generate-function-path slime_episodes.generate`."""

from gym_llm.trainers.slime import EpisodeGenerate

generate = EpisodeGenerate("gym_llm/Arithmetic-v0")
