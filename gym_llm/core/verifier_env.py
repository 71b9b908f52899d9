"""VerifierEnv: one task, one episode, one reward, as a `gymnasium.Env`."""

from __future__ import annotations

import functools
import inspect
from typing import Any, ClassVar, Self, cast

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from gym_llm.concurrency import SHUTDOWN_ERRORS, wait
from gym_llm.core.author_hooks import AuthorHooks, TaskT
from gym_llm.core.env_config import EnvConfig, constructor_signature, read_config
from gym_llm.core.forgotten_await import await_hook, call_hook, finish_hook
from gym_llm.core.fork import Randomness, fork_env, fork_verifier
from gym_llm.core.group_rewards import run_verify_group
from gym_llm.core.hook_names import check_hook_names, missing_verify
from gym_llm.core.prompts import RowPrompt, read_row_prompt
from gym_llm.core.rewards import Metric, read_step_reward, read_verdict
from gym_llm.core.seeding import LazilySeeded
from gym_llm.core.shared_state import SharedState
from gym_llm.core.spaces import RequestSpace, ResponseSpace
from gym_llm.core.task_sampler import Draw, TaskSampler
from gym_llm.core.tasks import BaseTask, PreparedTask, TaskKind, TaskSource, task_class, task_source
from gym_llm.core.teardown import run_teardown
from gym_llm.core.tools import Tool, tools_of
from gym_llm.core.tools.calls import run_calls
from gym_llm.errors import DataError
from gym_llm.protocols.responses.actions import read_action
from gym_llm.protocols.responses.items import user_items
from gym_llm.protocols.responses.transcript import transcript
from gym_llm.types import Episode, Item, Request, ReverifyMode, Row, StateT, Verdict

_RESET_OPTIONS = {"task", "task_index"}
_MOST_REASONING_TURNS = 3
_UNFINISHED = {"incomplete", "failed", "cancelled"}


def was_cut_off(response: dict[str, Any]) -> bool:
    """Whether a response did not come to its end. Some servers give no status."""
    return response.get("status") in _UNFINISHED or bool(response.get("incomplete_details"))


def has_only_reasoning(items: list[Item]) -> bool:
    """Whether a turn says nothing but reasoning."""
    return (
        bool(items) and items[-1].get("type") == "reasoning" and all(item.get("type") == "reasoning" for item in items)
    )


def never_answers(episode: Episode) -> bool:
    """Count a turn of reasoning alone; whether it is one too many, since the same request would get the same again."""
    episode.reasoning_turns += 1
    is_stuck = episode.reasoning_turns >= _MOST_REASONING_TURNS
    if is_stuck:
        _warn_of_reasoning()
    return is_stuck


@functools.cache
def _warn_of_reasoning() -> None:
    gym.logger.warn(
        f"{_MOST_REASONING_TURNS} turns had only reasoning: serve it without --reasoning-parser, or with another."
    )


class VerifierEnv(LazilySeeded[Request, Any], AuthorHooks[TaskT, StateT]):
    """An environment that asks a model, runs its tool calls, and scores the episode.

    The observation is the next request, and the action is the model's response (`protocols/responses/actions.py`).
    The response decides what follows:

    - Function calls: the environment runs the tools and asks the model again.
    - Only reasoning: the environment asks again, at most twice in a row. Then the episode is truncated with a warning:
      the server files the model's answers as reasoning, or the model gives none.
    - Anything else: `user_turn` gives the user's next message. If it returns None, the episode terminates with the
      reward of `verify`.
    - A response that was cut off, or the last of `max_turns` turns: the episode is truncated, and `verify` scores it.

    Subclasses give a `Task` schema, `@tool` methods, and the hooks `setup`, `opening`, `user_turn`, `verify`,
    `verify_group` and `teardown`, each of which may be async. They may override `generate` to make tasks. A base
    `VerifierEnv[QuizTask, QuizState]` gives the `Task`, and the types of `task` and `episode.state` to type checkers.

    Args:
        tasks: Rows with `responses_create_params`, or a source: a JSON Lines path or another form of
            `gym_llm.data.files.reading`. None for the class's generator, or else `data/example.jsonl` beside its
            module.
        max_turns: Model turns after which an episode is truncated; None for the class's `default_max_turns`.
        prompt_config: A YAML file with the prompt of rows that have no `input`; see `gym_llm.core.prompts`.
        render_mode: None, or `"ansi"`: `render` returns a readable transcript.
        sampler: Draws the task of each `reset` without options, and learns from the episode's reward. Environments of
            one process may share it.
        **arguments: The fields of the class's `Config`.

    Raises:
        DataError: If the tasks cannot be read or a row is wrong.
        TypeError: If an argument is unknown.
        ValueError: If another argument is invalid.

    Attributes:
        user: A simulated user, `SimulatedUser(prompt="You want {wish}.")`, that plays `opening` and `user_turn`; the
            environment takes the user's engine as the argument `user`.
        config: The arguments of the class's `Config`; each is an attribute of the environment, too.
        executes_tools: False if `verify` grades the calls: a turn with calls then ends the episode, and no tool runs.
        dry_run_kwargs: Arguments for checks without external services: `{"judge": "constant:A"}`.
        reverify_mode: Whether `verify` can score a stored episode without running its tools (`gym-llm reverify`).
            Declare `"stateless"` if it reads only the episode's items and what `setup` makes.
        episode: The episode being played, or the last one; None before the first reset.
        open_episode: The episode whose `teardown` has not run; None also if the class has no `teardown`.
        episode_attributes: Attributes of the episode, beside those that parents name; a fork copies them.
        metrics: Fields of the info of `verify` that a run reports beside the reward, by name.
        phase: The hook that is running or has failed (`gym_llm.types.Phase`); `env` for other code.
    """

    class Config(EnvConfig):
        """Arguments of the class beside those of every environment."""

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}
    Task: ClassVar[type[BaseTask]] = BaseTask
    reverify_mode: ClassVar[ReverifyMode] = "unknown"
    default_max_turns: ClassVar[int] = 32
    executes_tools: bool = True
    dry_run_kwargs: ClassVar[dict[str, Any]] = {}
    metrics: ClassVar[dict[str, Metric]] = {}
    episode_attributes: ClassVar[tuple[str, ...]] = ()
    _tools: ClassVar[dict[str, Tool]] = {}
    _tool_schemas: ClassVar[list[dict[str, Any]] | None] = None
    _tears_down: ClassVar[bool] = False
    _opens: ClassVar[bool] = False
    _shared_state: ClassVar[SharedState]
    _forks: tuple[Episode, int] | None = None
    _task_draw: Draw | None = None
    _drawn_reward = 0.0
    open_episode: Episode | None = None
    in_group: bool = False
    """Whether `verify_group` scores the episodes later, with the others of their group; a rollout sets it."""
    agent_selection: str | None = None
    """The seat that is to act, where an episode has several; see `gym_llm.judge.multi_agent_env.MultiAgentEnv`."""
    row_prompt: RowPrompt | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the names of the class's hooks, and collect its tools."""
        super().__init_subclass__(**kwargs)
        check_hook_names(cls, VerifierEnv)
        cls.Task = task_class(cls)
        cls._tools = tools_of(cls)
        cls._tool_schemas = None
        cls.scores_groups = cls.verify_group is not VerifierEnv.verify_group
        cls._tears_down = cls.teardown is not VerifierEnv.teardown
        cls._opens = cls.opening is not VerifierEnv.opening or cls.user is not None
        cls._shared_state = SharedState(cls, VerifierEnv)
        if cls.user is not None and "user" not in cls.Config.model_fields:
            cls.Config = cls.user.add_argument(cls.Config)  # type: ignore[assignment, misc]
        if cls.Config.model_fields:
            cls.__signature__ = constructor_signature(cls, VerifierEnv)  # type: ignore[attr-defined]

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        max_turns: int | None = None,
        prompt_config: str | None = None,
        render_mode: str | None = None,
        sampler: TaskSampler | None = None,
        **arguments: Any,
    ) -> None:
        if type(self).verify is VerifierEnv.verify and not self.scores_groups:
            raise TypeError(missing_verify(type(self)))
        self.config = read_config(type(self).__name__, self.Config, arguments)
        for name, value in self.config:
            if not hasattr(type(self), name):
                setattr(self, name, value)  # `vars(self)` would make every later access slower (Python 3.11)
        if type(self).user is not None and self.config.user is not None:  # type: ignore[attr-defined]
            self.user = type(self).user.played_by(self.config.user)  # type: ignore[attr-defined, union-attr]
        if max_turns is not None and (not isinstance(max_turns, int) or max_turns < 1):
            raise ValueError(f"max_turns is the number of model turns, 1 or more, or None; got {max_turns!r}.")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode is None or one of {self.metadata['render_modes']}; got {render_mode!r}.")
        self.max_turns = self.default_max_turns if max_turns is None else max_turns
        self.render_mode = render_mode
        self.row_prompt = None if prompt_config is None else read_row_prompt(prompt_config)
        self.observation_space = RequestSpace()
        self.action_space = ResponseSpace()
        self.tasks = self._task_source(tasks)
        if sampler is not None:
            if not isinstance(sampler, TaskSampler):
                raise ValueError(f"sampler is a gym_llm.TaskSampler, got {type(sampler).__name__}.")
            sampler.begin_with(self.tasks)
        self.sampler = sampler
        self.episode: Episode | None = None
        self._task: Any = None
        self._over = True
        self.phase = "env"

    # -- gymnasium -------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Request, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seeds the choice of tasks (and `self.np_random` for the hooks), as everywhere in Gymnasium.
            options: `{"task_index": 3}` plays that task, `{"task": row}` plays this row (with `task_index` as its
                number, if both are given). Without either the `sampler` draws the next task, or else it is drawn at
                random.

        Returns:
            The first request, and info: `task_index`, `turn` (0), `tool_errors` (0); with a sampler's task also its
            `task_probability`.

        Raises:
            DataError: If there is no task to play, or the row is wrong.
            IndexError: If there is no task with this index.
            ValueError: If an option is unknown.
        """
        super().reset(seed=seed)
        self.end_episode()  # should a hook fail, neither the old episode nor a half-made one can be played
        index, prepared = self._choose(options or {})
        observation, info = self._begin(index, prepared)
        if self._task_draw is not None:
            info["task_probability"], self._drawn_reward = self._task_draw.probability, 0.0
        return observation, info

    def _begin(self, index: int, prepared: PreparedTask) -> tuple[Request, dict[str, Any]]:
        episode = Episode(index, prepared.row, prepared.request)
        self._task = prepared.task
        self.episode = episode
        self.phase = "setup"
        self._shared_state.begin()
        state = call_hook(self.setup, prepared.task)
        if state is not None and inspect.isawaitable(state):  # asking takes long, for an environment that is quick
            state = wait(await_hook(state))
        if self._tears_down:
            self.open_episode = episode
        episode.state = state
        if self._opens:
            try:
                episode.items.extend(user_items(finish_hook(call_hook(self.opening, prepared.task, state)), "opening"))
            except BaseException as error:
                if not isinstance(error, SHUTDOWN_ERRORS):
                    self.end_episode(error)
                raise
        self.phase = "env"
        self._over = False
        return self._observation(episode), {"task_index": index, "turn": 0, "tool_errors": 0}

    def step(self, action: Any) -> tuple[Request, float, bool, bool, dict[str, Any]]:
        """Take one model turn.

        Args:
            action: The model's response to the last observation; see `gym_llm.protocols.responses.actions`.

        Returns:
            The next request (complete, also at the end), the reward, terminated, truncated, and info. The reward is
            `episode.step_reward`; the last turn adds the reward of `verify`. Info has `task_index`, `turn` and
            `tool_errors`, and `reward` if `step_reward` is not 0. At the end it also has the verifier's details and
            `reward_components`.

        Raises:
            InvalidAction: If the action is not a Responses answer. The episode is unchanged.
            ResetNeeded: If no episode is running.
            InvalidReward: If the reward of `verify` or of the turn is not a finite number. The episode is over.
            Exception: The exception of a hook or a tool, except `ToolError`. The episode is over.
        """
        episode = self.episode
        if episode is None or self._over:
            raise ResetNeeded("No episode is running: call reset() before step().")
        items, response = read_action(action)
        episode.begin_turn(items, response)
        episode.step_reward = 0.0
        try:
            terminated, truncated = self._advance(episode, items, response)
            info = {"task_index": episode.task_index, "turn": episode.turn, "tool_errors": episode.tool_errors}
            is_paid = type(episode.step_reward) not in (float, int) or episode.step_reward != 0  # `np.ma.masked` is not
            reward = read_step_reward(episode, info) if is_paid else 0.0
            reward += self._finish(episode, info) if terminated or truncated else 0.0
            if self._task_draw is not None:
                self._tell_sampler(reward, terminated or truncated, info)
        except BaseException as error:  # a panic in Rust is no Exception
            if not isinstance(error, SHUTDOWN_ERRORS):  # then nothing can be waited for
                self.end_episode(error)
            raise
        return self._observation(episode), reward, terminated, truncated, info

    def render(self) -> str | None:  # type: ignore[override]
        """The episode so far as a readable transcript (`render_mode="ansi"`), else None."""
        if self.render_mode != "ansi":
            gym.logger.warn('Make the environment with render_mode="ansi" to render it as a transcript.')
            return None
        return transcript(self.episode.request["input"] + self.episode.items) if self.episode else ""

    def close(self) -> None:
        """End the episode under way and release shared resources; a `reset` opens the environment again.

        Overrides must call `super().close()`.
        """
        try:
            self.end_episode()
        finally:
            if self._resources is not None:
                self._resources.release()

    # -- what the rest of the package asks for ------------------------------------------------------------------------

    def fork(self, n: int, *, randomness: Randomness = "own") -> list[Self]:
        """Return `n` environments that continue the episode from here; see `gym_llm.fork_env`, which keeps wrappers."""
        return fork_env(self, n, randomness=randomness)

    def fork_once(self, randomness: Randomness) -> Self:
        """Return one fork of this environment; subclasses with more than an episode add what they have."""
        return fork_verifier(self, randomness)

    @property
    def is_over(self) -> bool:
        """Return whether no episode is under way."""
        return self._over

    def limit_turns(self, turns: int) -> None:
        """Lower `max_turns` to this number if it is higher; `EnvFactory` does so for `max_episode_steps`."""
        self.max_turns = min(self.max_turns, turns)

    def score_truncated(self, info: dict[str, Any]) -> float:
        """End the episode under way, which a wrapper has truncated, and return the reward of `verify`.

        `Driver.step` calls it.

        Args:
            info: The last step's info. The verifier's details are added to it.

        Raises:
            Exception: If `verify` or `teardown` raises. The episode is over.
        """
        try:
            reward = self._finish(cast(Episode, self.episode), info)
            if self._task_draw is not None:
                self._tell_sampler(reward, True, info)
            return reward
        except BaseException as error:
            if not isinstance(error, SHUTDOWN_ERRORS):
                self.end_episode(error)
            raise

    def score_group(self, task: Any, episodes: list[Episode]) -> list[Verdict]:
        """Return what `verify_group` gives the episodes of one task; see `gym_llm.core.group_rewards`."""
        self.phase = "verify"
        verdicts = run_verify_group(self, task, episodes)
        self.phase = "env"
        return verdicts

    def end_episode(self, error: BaseException | None = None) -> None:
        """Give up the episode under way; its `teardown` runs unless it already has.

        Args:
            error: The error that ended it. An error of `teardown` becomes a note on this one.

        Raises:
            Exception: If `teardown` raises or takes too long, and there is no `error`.
            asyncio.CancelledError: If the caller's task was cancelled meanwhile. `teardown` has run to its end.
        """
        self._over = True
        episode, self.open_episode = self.open_episode, None
        if episode is None:
            return
        phase, self.phase = self.phase, "teardown"
        run_teardown(self.teardown, self._task, episode, error)
        self.phase = phase

    @classmethod
    def speaks_for_user(cls) -> bool:
        """Return whether the class answers the model's messages as the user."""
        return cls.user is not None or cls.user_turn is not VerifierEnv.user_turn

    @property
    def env_id(self) -> str:
        """The registered id of the environment that plays the current episode, else its class's name."""
        return self.spec.id if self.spec is not None else type(self).__name__

    @property
    def reads_python_json(self) -> bool:
        """Whether `NaN` and `Infinity` count as JSON in the arguments of calls."""
        return False

    @property
    def playing(self) -> VerifierEnv:
        """The verifier that plays the current episode: this one, unless it has others do it."""
        return self

    def plays(self, env_id: str | None) -> bool:
        """Return whether an episode recorded under this id can have been played here."""
        return env_id == self.env_id

    def scoring_classes(self) -> list[type[VerifierEnv]]:
        """Return the classes whose code scores this environment's episodes."""
        return [type(self)]

    def seat_trajectories(self) -> dict[str, list[dict[str, Any]] | None] | None:
        """Return each seat's trajectory so far, where an episode has several seats; else None."""
        return None

    def seat_fields(self) -> dict[str, Any] | None:
        """Return the record's `seats`, where an episode has several; else None."""
        return None

    def turn_rewards_of(self, seat: str) -> list[float]:
        """Return what each turn of a seat was paid."""
        raise KeyError(seat)

    def add_seat_report(self, seat: str, trajectory: list[dict[str, Any]] | None, info: dict[str, Any]) -> None:
        """Take an engine's report on the seat that it has played; see `gym_llm.engines.engine.EpisodeReport`."""
        raise KeyError(seat)

    @property
    def num_tasks(self) -> int | None:
        """The number of tasks; None if they are generated without end or come in `options` only."""
        return self.tasks.size if self.tasks is not None else None

    @classmethod
    def tool_schemas(cls) -> list[dict[str, Any]]:
        """The class's tools as a request names them."""
        if cls._tool_schemas is None:
            cls._tool_schemas = [tool.schema for tool in cls._tools.values()]
        return cls._tool_schemas

    @classmethod
    def changed_by_episodes(cls) -> list[str]:
        """Return a sentence for each list, dict or set of the class that episodes in this process have changed."""
        return [cls._shared_state.sentence(name) for name in cls._shared_state.changed]

    def task_kind(self) -> TaskKind:
        """Return what checks and prepares rows. `options["task"]` may be a row that it has prepared."""
        return TaskKind(self.Task, self.tool_schemas, self.row_prompt)

    # -- parts -----------------------------------------------------------------------------------------------------

    def _task_source(self, tasks: str | list[Row] | TaskSource | None) -> TaskSource | None:
        cls = type(self)
        generate = None if cls.generate is VerifierEnv.generate else self.generate
        return task_source(tasks, self.task_kind(), generate, cls.__module__)

    def _choose(self, options: dict[str, Any]) -> tuple[int, PreparedTask]:
        if unknown := options.keys() - _RESET_OPTIONS:
            raise ValueError(f"reset options are {sorted(_RESET_OPTIONS)}; got {sorted(map(str, unknown))}.")
        index, self._task_draw = options.get("task_index"), None
        if index is not None and not isinstance(index, (int, np.integer)):
            raise ValueError(f"task_index is an int, got {type(index).__name__}.")
        if (row := options.get("task")) is not None:
            prepared = row if isinstance(row, PreparedTask) else self.task_kind().prepare(row)
            return (-1 if index is None else int(index)), prepared
        if self.tasks is None:
            raise DataError(f"{type(self).__name__} has no tasks: make it with tasks=..., or reset it with one.")
        if index is None and self.sampler is not None:
            self.sampler.begin_with(self.tasks)
            self._task_draw = self.sampler.draw()
            index = self._task_draw.task_index
        if index is None:
            index = int((self._np_random_made or self.np_random).integers(self.tasks.size or 2**31))
        return int(index), self.tasks[int(index)]

    def _tell_sampler(self, reward: float, is_over: bool, info: dict[str, Any]) -> None:
        """Add up the rewards of an episode whose task a sampler has drawn; the sampler gets their sum."""
        assert self.sampler is not None and self._task_draw is not None
        self._drawn_reward += reward
        if is_over:
            self.sampler.begin_with(self.tasks)
            self.sampler.update(self._task_draw.task_index, self._drawn_reward)
            info["task_probability"] = self._task_draw.probability

    def _observation(self, episode: Episode) -> Request:
        request = episode.request.copy()
        request["input"] = request["input"] + episode.items
        return request

    def _advance(self, episode: Episode, items: list[Item], response: dict[str, Any]) -> tuple[bool, bool]:
        """Answer the model's turn; (terminated, truncated)."""
        if was_cut_off(response):
            return False, True
        last_turn = episode.turn >= self.max_turns
        calls = [item for item in items if item.get("type") == "function_call"]
        if calls:
            episode.reasoning_turns = 0
            if not self.executes_tools:
                return True, False
            self.phase = "tool"
            outputs, errors = run_calls(self, self._tools, calls, episode.state)
            episode.items.extend(outputs)
            self.phase = "env"
            episode.tool_errors += errors
            return False, last_turn
        if has_only_reasoning(items):
            return False, never_answers(episode) or last_turn
        episode.reasoning_turns = 0
        self.phase = "respond"
        reply = call_hook(self.user_turn, self._task, episode)
        if reply is not None and inspect.isawaitable(reply):
            reply = cast("str | list[Item] | None", wait(await_hook(reply)))
        if reply is None:
            return True, False
        if last_turn:
            return False, True
        episode.items.extend(user_items(reply, "user_turn"))
        self.phase = "env"
        return False, False

    def _finish(self, episode: Episode, info: dict[str, Any]) -> float:
        self._over = True
        self.phase = "verify"
        verdict = call_hook(self.verify, self._task, episode)
        if not isinstance(verdict, (float, Verdict)) and inspect.isawaitable(verdict):
            verdict = cast("float | Verdict", wait(await_hook(verdict)))
        reward = read_verdict(verdict, info)
        self._shared_state.check()
        if self.scores_groups and not self.in_group:
            (alone,) = run_verify_group(self, self._task, [episode])
            reward += alone.reward
            info.update(alone.info, group={"size": 1})
        self.phase = "env"
        if self.open_episode is not None:
            self.end_episode()
        return reward
