"""Environments of SkyRL Gym: rows with rewards by rules, tools as tags in the text."""

from __future__ import annotations

from typing import Any

ENV_ID = "gym_llm/SkyRLGym-v0"
PACKAGES = ("skyrl-gym==0.4.0",)
MODULE = "skyrl_gym"
FRAMEWORKS = ("skyrl_gym",)
_BLOCKING = ("search", "searchcode", "text2sql", "lcb")


class Peer:
    """An environment of SkyRL Gym.

    Args:
        env: Its registered name: `gsm8k`.
        prompt: The row's messages.
        extras: All other columns of the row.
        env_config: The environment's settings.
    """

    recording = False

    def __init__(
        self,
        env: str = "gsm8k",
        prompt: list[Any] | None = None,
        extras: dict[str, Any] | None = None,
        env_config: dict[str, Any] | None = None,
    ) -> None:
        import skyrl_gym

        self.blocking = env in _BLOCKING
        try:
            from omegaconf import OmegaConf

            config: Any = OmegaConf.create(env_config or {})
        except ImportError:
            from types import SimpleNamespace

            config = SimpleNamespace(**env_config or {})
        self._env = skyrl_gym.make(env, env_config=config, extras=dict(extras or {}))
        self._prompt = [dict(message) for message in prompt or []]

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin with the environment's own prompt, which may differ from the row's."""
        messages, _ = self._env.init(self._prompt)
        return {"say": messages, "observation": messages}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Score the text, or answer its tool tags."""
        output = self._env.step(action["text"])
        turn = {"say": output["observations"], "reward": output["reward"], "terminated": bool(output["done"])}
        turn["info"] = {"metadata": dict(output.get("metadata") or {})}
        if output.get("postprocessed_action") is not None:
            turn["info"]["postprocessed_action"] = output["postprocessed_action"]
        if turn["terminated"]:
            turn["info"]["metrics"] = self._env.get_metrics()
        turn["observation"] = output["observations"]
        return turn

    def close(self) -> None:
        """Close it."""
        self._env.close()


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one: the arguments have the row."""
    return [{}]


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    return {"env": episode["env"], "prompt": episode["observations"][0], **episode["kwargs"]}, None
