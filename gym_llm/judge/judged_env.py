"""JudgedEnv: a verifier that asks a judge."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field

from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import WRITTEN, Count
from gym_llm.core.tasks import PreparedTask
from gym_llm.judge.engine_argument import EngineArgument, auxiliary_engine, check_engine, identity, shared_name
from gym_llm.judge.judge import FAILS as FAILS
from gym_llm.judge.judge import Judge, Params
from gym_llm.judge.judge import Judgement as Judgement
from gym_llm.judge.judge_prompts import Prompt, check_fields, make_prompt, read_prompt
from gym_llm.judge.recorded_answers import ReplayedAnswers
from gym_llm.judge.verdicts import Parser
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Episode, Item, Request, Row, Verdict

_UNBOUNDED = 1_000_000
T = TypeVar("T")


class JudgedEnv(NemoCompatible):
    """A verifier whose `verify` asks a judge, with `ask`. All episodes of an event loop share the judge.

    The record has every call: `info["judge_evaluations"]` lists request, response and verdict, as NeMo Gym does. If the
    judge fails, its answer is incomplete, or its verdict cannot be read, the episode is masked, not scored 0.

    Prompts are files beside the class, `prompts/judge.yaml`, with a `user` and perhaps a `system` message and places
    for values; or they are in `judge_prompts`.

    Args:
        tasks: See `VerifierEnv`.
        judge: An engine's spec (`http://HOST:PORT/v1`, `vllm:MODEL`, `actor:NAME`, `constant:TEXT`, …), or
            `{"engine": spec, "kwargs": {...}}`; `replay:FILE` replays recorded answers, see
            `gym_llm.judge.recorded_answers`.
        judge_responses_create_params: Fields of the judge's requests, over the class's own; null removes one.
        judge_prompt_fpath: A prompt instead of the class's `judge.yaml`.
        judge_cache: Whether identical calls are answered once: true, false, or None for those of temperature 0. Or the
            path of an SQLite file, which any number of processes share.
        judge_endpoint_max_concurrency: Maximum number of requests at a time, per event loop.
        judge_votes: How often the judge is asked; the most frequent verdict counts. A draw of true and false is false;
            any other draw is unreadable.
        judge_retries: How often it is asked again when its answer is incomplete (cut off, filtered, refused, or inside
            its thinking) or its verdict cannot be read.
        judge_max_characters: Maximum length of a text in a prompt. The middle of a longer text is left out, so that a
            long answer cannot keep the judge from deciding. Not with `conform`.
        conform: `"nemo"` reads verdicts as NeMo Gym does, those of incomplete answers included.
        **kwargs: See `VerifierEnv`.

    Raises:
        ValueError: If an argument is invalid, or a judge is required and missing.
    """

    class Config(NemoCompatible.Config):
        """The judge, and how it is asked."""

        judge: EngineArgument | None = None
        judge_responses_create_params: dict[str, Any] | None = None
        judge_prompt_fpath: str | None = None
        judge_cache: Annotated[bool | Annotated[str, Field(min_length=1)] | None, WRITTEN] = None
        judge_endpoint_max_concurrency: Count | None = 64
        judge_votes: Count = 1
        judge_retries: int = Field(1, ge=0)
        judge_max_characters: int = Field(200_000, ge=100)

    config: Config

    judge_required: ClassVar[bool] = True
    judge_params: ClassVar[dict[str, Any]] = {"temperature": 0.0}
    """Fields of the judge's requests."""
    judge_prompts: ClassVar[dict[str, dict[str, str]]] = {}
    """Prompts by name, for a class without a folder of its own: `{"judge": {"user": "..."}}`."""
    judge_thinks: ClassVar[bool] = False
    """Whether NeMo Gym takes the thinking out of what this judge says; we always do."""
    judge_values: ClassVar[tuple[str, ...]] = ()
    """What a prompt of the user's may have places for beside what the class's own has."""

    episode_attributes: ClassVar[tuple[str, ...]] = ("_calls",)

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        if (judge := kwargs.get("judge")) is not None:
            check_engine("judge", judge)  # here, where its keys are learned: messages of `Config` show values
        super().__init__(tasks, **kwargs)
        if judge is None and self.judge_required:  # last: a misspelt argument has its own error
            raise ValueError(
                f'{type(self).__name__} needs a judge: give judge="http://HOST:PORT/v1" '
                '(or judge="constant:TEXT" for a dry run).'
            )
        config = self.config
        self._params = Params.read(self.judge_params, config.judge_responses_create_params or {})
        self._prompts: dict[str, Prompt] = {}
        self._calls: list[list[dict[str, Any]]] = []
        self._resolved: tuple[asyncio.AbstractEventLoop, Judge] | None = None
        if (path := config.judge_prompt_fpath) is not None:
            prompt = self._prompts["judge"] = read_prompt(path)
            check_fields(prompt, path, {*_own_prompt(type(self), "judge").fields, *self.judge_values})

    @property
    def judge(self) -> EngineArgument | None:
        """The argument."""
        return self.config.judge

    async def ask(
        self,
        asked: Mapping[str, Any] | list[Item],
        parse: Parser,
        *,
        prompt: str = "judge",
        unparsable: Any = FAILS,
        empty_fails: bool = False,
        swap: tuple[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Judgement:
        """Return the judge's verdict.

        Args:
            asked: The values for the prompt, or the messages themselves.
            parse: Reads the judge's text, without its thinking (with it if `conform`); see `gym_llm.judge.verdicts`.
                It returns a JSON value, or None for a verdict that cannot be read.
            prompt: The name of one of the class's prompts: of a file in `prompts/`.
            unparsable: The value of a complete answer whose verdict cannot be read, after the retries; `FAILS` masks
                the episode. An incomplete answer always masks it, but not with `conform`.
            empty_fails: With `conform`: whether an empty text fails even so.
            swap: Two of the values: if the verdict is true, they change their places, and it has to be true again.
            params: Fields of this request, over all others.

        Raises:
            JudgeError: If the judge fails, its answer is incomplete, or its verdict cannot be read.
        """
        calls: list[dict[str, Any]] = []
        self._calls.append(calls)
        swapped = None
        if isinstance(asked, list):
            messages = [{**each, "content": self._shown(each["content"])} for each in asked]
        else:
            values = {name: self._shown(value) for name, value in asked.items()}
            messages = self.prompt(prompt).messages(values)
            if swap is not None:
                one, other = swap
                swapped = self.prompt(prompt).messages({**values, one: values[other], other: values[one]})
        config = self.config
        return await (await self._resolve_judge()).verdict(
            messages,
            parse,
            self._params if params is None else Params.read(self._params.fields, params),
            votes=config.judge_votes,
            retries=0 if config.conform else config.judge_retries,
            swapped=swapped,
            unparsable=unparsable,
            empty_fails=empty_fails,
            as_read=self._as_read if config.conform else None,
            calls=calls,
        )

    async def ask_each(
        self, asked: Iterable[Mapping[str, Any] | list[Item]], parse: Parser, **options: Any
    ) -> list[Judgement]:
        """Ask several questions at once; verdicts and records keep their order. The arguments are those of `ask`."""
        return await all_of(self.ask(each, parse, **options) for each in asked)

    def prompt(self, name: str = "judge") -> Prompt:
        """Return one of the class's prompts, or the one that the user has given instead."""
        prompt = self._prompts.get(name)
        if prompt is None:
            prompt = self._prompts[name] = _own_prompt(type(self), name)
        return prompt

    def _shown(self, value: Any) -> Any:
        longest = self.config.judge_max_characters
        if self.conform or not isinstance(value, str) or len(value) <= longest:
            return value
        left_out = len(value) - longest
        return f"{value[: longest // 2]}\n[… {left_out} characters left out …]\n{value[len(value) - longest // 2 :]}"

    @property
    def judge_evaluations(self) -> list[dict[str, Any]]:
        """The records of this episode's calls so far."""
        return [call for calls in self._calls for call in calls]

    def _as_read(self, text: str) -> str:
        return strip_thinking(text, conform=True) if self.judge_thinks else text

    async def _resolve_judge(self) -> Judge:
        """Return the judge; it is looked up once per event loop, until the environment is closed."""
        loop = asyncio.get_running_loop()
        if self._resolved is not None and self._resolved[0] is loop:
            return self._resolved[1]
        argument, cache = self.config.judge, self.config.judge_cache
        concurrency = self.config.judge_endpoint_max_concurrency
        if argument is None:
            raise ValueError(f'{type(self).__name__} has no judge to ask: give judge="http://HOST:PORT/v1".')
        engine = await auxiliary_engine(self, argument)

        def make() -> Judge:
            places = concurrency or _UNBOUNDED
            if isinstance(engine, ReplayedAnswers):  # each of its answers is for one call
                return Judge(engine, concurrency=places, cache=False)
            made_from = identity(argument, engine.model)
            if isinstance(cache, str):
                return Judge(engine, made_from, concurrency=places, cache=True, cache_file=cache)
            return Judge(engine, made_from, concurrency=places, cache=cache)

        judge: Judge = await self.shared(f"judge {shared_name(self, argument, cache, concurrency)}", make)
        self._resolved = loop, judge
        return judge

    def close(self) -> None:
        """End the episode under way and release the judge."""
        self._resolved = None
        super().close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_resolved": None}  # it belongs to an event loop of this process

    def _begin(self, index: int, prepared: PreparedTask) -> tuple[Request, dict[str, Any]]:
        self._calls = []
        return super()._begin(index, prepared)

    def score_group(self, task: Any, episodes: list[Episode]) -> list[Verdict]:
        """Score a group; the record of its first episode has the calls, unless `verify_group` says whose they are."""
        self._calls = []
        verdicts = super().score_group(task, episodes)
        if not any("judge_evaluations" in verdict.info for verdict in verdicts):
            verdicts[0].info["judge_evaluations"] = self.judge_evaluations
        return verdicts

    def _finish(self, episode: Episode, info: dict[str, Any]) -> float:
        reward = super()._finish(episode, info)
        info.setdefault("judge_evaluations", self.judge_evaluations)
        return reward


async def all_of(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines at once and return their results in order; the first error cancels the others."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _own_prompt(env: type[JudgedEnv], name: str) -> Prompt:
    if name in env.judge_prompts:
        return make_prompt(env.judge_prompts[name], name)
    for each in env.__mro__:
        if each is JudgedEnv:
            break
        with suppress(TypeError, OSError):  # a class of a notebook's, or of `python -c`, has no file
            file = Path(inspect.getfile(each)).parent / "prompts" / f"{name}.yaml"
            if file.is_file():
                return read_prompt(file)
    raise ValueError(f"{env.__name__} has no prompt {name!r}: there is no prompts/{name}.yaml beside its module.")
