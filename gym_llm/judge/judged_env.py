"""JudgedEnv: a verifier that asks a judge."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from gym_llm.core.compat import NemoCompatible
from gym_llm.core.tasks import PreparedTask
from gym_llm.errors import JudgeError
from gym_llm.judge.auxiliary_engine import EngineArgument, check_engine, identity, shared_name, side_engine
from gym_llm.judge.judge import Answer, Judge, Params
from gym_llm.judge.judge_prompts import Prompt, check_fields, make_prompt, read_prompt
from gym_llm.judge.recorded_answers import ReplayedAnswers
from gym_llm.judge.verdicts import Labels, Parser
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Episode, Item, Request, Row
from gym_llm.utils.printable import excerpt

FAILS: Final = object()
"""What a verdict that cannot be read is, where it is not a value: a failure of the judge's, and no reward."""


@dataclass(slots=True)
class Judgement:
    """What a judge decided.

    Attributes:
        value: What the parser read; `unparsable` if it could not.
        text: What the judge said, with its thinking; of several votes one that decided.
        swap_failed: Whether it said yes first and no when the two answers had changed their places.
    """

    value: Any
    text: str
    swap_failed: bool = False


class JudgedEnv(NemoCompatible):
    """A verifier whose `verify` asks a judge, with `ask`; all episodes of an event loop share it.

    Every call is in the record: `info["judge_evaluations"]` lists request, response and verdict, as NeMo Gym does. A
    judge that fails, or that cannot be understood, masks the episode: that is nobody's zero.

    Prompts are files beside the class, `prompts/judge.yaml`: `user`, perhaps `system`, with places for values; or they
    are in `judge_prompts`.

    Args:
        tasks: See `VerifierEnv`.
        judge: An engine's spec (`http://HOST:PORT/v1`, `vllm:MODEL`, `actor:NAME`, `constant:TEXT`, …), or
            `{"engine": spec, "kwargs": {...}}`; `replay:FILE` says what `gym_llm.judge.recorded_answers` has recorded.
        judge_responses_create_params: Fields of the judge's requests, over the class's own; null takes one away.
        judge_prompt_fpath: A prompt instead of the class's `judge.yaml`.
        judge_cache: Whether identical calls are answered once: None for where the temperature is 0, true, false, or an
            SQLite file for it, which any number of processes share.
        judge_endpoint_max_concurrency: The most requests at a time, per event loop.
        judge_votes: How often it is asked; the most frequent verdict counts. A draw of yes and no is a no, one of other
            verdicts none that can be read.
        judge_retries: How often it is asked again when its verdict cannot be read.
        judge_max_characters: The longest text that a prompt shows; of a longer one the middle is left out (with
            `conform` nothing is), so that no answer is too long for the judge to say no to.
        conform: `"nemo"` reads verdicts as NeMo Gym does.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense, or there is no judge where one is needed.
    """

    judge_required: ClassVar[bool] = True
    judge_params: ClassVar[dict[str, Any]] = {"temperature": 0.0}
    """Fields of the judge's requests."""
    judge_prompts: ClassVar[dict[str, dict[str, str]]] = {}
    """Prompts by name, for a class without a folder of its own: `{"judge": {"user": "..."}}`."""
    judge_thinks: ClassVar[bool] = False
    """Whether NeMo Gym takes the thinking out of what this judge says; we always do."""
    judge_values: ClassVar[tuple[str, ...]] = ()
    """What a prompt of the user's may have places for beside what the class's own has."""

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        judge: EngineArgument | None = None,
        judge_responses_create_params: dict[str, Any] | None = None,
        judge_prompt_fpath: str | None = None,
        judge_cache: bool | str | None = None,
        judge_endpoint_max_concurrency: int | None = 64,
        judge_votes: int = 1,
        judge_retries: int = 1,
        judge_max_characters: int = 200_000,
        **kwargs: Any,
    ) -> None:
        if judge is not None:
            check_engine("judge", judge)
        if not isinstance(judge_responses_create_params, dict | None):
            kind = type(judge_responses_create_params).__name__
            raise ValueError(f"judge_responses_create_params is a dict of a request's fields, got {kind}.")
        if not isinstance(judge_cache, bool | str | None) or judge_cache == "":
            raise ValueError(f"judge_cache is true, false, None or a file's path, got {judge_cache!r}.")
        concurrency = judge_endpoint_max_concurrency
        for name, count, least in (
            ("judge_endpoint_max_concurrency", 1 if concurrency is None else concurrency, 1),
            ("judge_votes", judge_votes, 1),
            ("judge_retries", judge_retries, 0),
            ("judge_max_characters", judge_max_characters, 100),
        ):
            if type(count) is not int or count < least:
                raise ValueError(f"{name} is an integer of {least} or more, got {count!r}.")
        super().__init__(tasks, **kwargs)
        if judge is None and self.judge_required:  # last: whoever wrote `judg` is told of that
            raise ValueError(
                f'{type(self).__name__} needs a judge: give judge="http://HOST:PORT/v1" (or any other engine\'s spec), '
                'or judge="constant:TEXT", which always says that, for a dry run. On the command line that is '
                '--env-kwargs \'{"judge": "http://HOST:PORT/v1"}\'.'
            )
        self.judge = judge
        self.judge_cache = judge_cache
        self.judge_endpoint_max_concurrency = concurrency
        self.judge_votes = judge_votes
        self.judge_retries = judge_retries
        self.judge_max_characters = judge_max_characters
        self._params = Params.read(self.judge_params, judge_responses_create_params or {})
        self._prompts: dict[str, Prompt] = {}
        self._calls: list[list[dict[str, Any]]] = []
        if judge_prompt_fpath is not None:
            prompt = self._prompts["judge"] = read_prompt(judge_prompt_fpath)
            check_fields(prompt, judge_prompt_fpath, {*_own_prompt(type(self), "judge").fields, *self.judge_values})

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
        """Ask the judge.

        Args:
            asked: The values for the prompt, or the messages themselves.
            parse: Reads its text, from which the thinking is taken out (not with `conform`); see
                `gym_llm.judge.verdicts`. What it returns is JSON, None if it cannot read it.
            prompt: Which of the class's prompts: the name of a file in `prompts/`.
            unparsable: What counts where the verdict cannot be read, after the retries; `FAILS` masks the episode.
            empty_fails: Whether a judge that says nothing fails even so.
            swap: Two of the values: if the verdict is true, they change their places, and it has to be true again.
            params: Fields of this request, over all others.

        Raises:
            JudgeError: If the judge fails, or cannot be understood.
        """
        calls: list[dict[str, Any]] = []
        self._calls.append(calls)
        judge = await self._shared_judge()
        fields = self._params if params is None else Params.read(self._params.fields, params)
        question = _Question(parse, unparsable, empty_fails, fields, calls)
        if isinstance(asked, list):
            messages = [{**each, "content": self._shown(each["content"])} for each in asked]
            return await self._decide(judge, messages, question)
        asked = {name: self._shown(value) for name, value in asked.items()}
        template = self.prompt(prompt)
        judgement = await self._decide(judge, template.messages(asked), question)
        if swap is not None and judgement.value:
            one, other = swap
            exchanged = {**asked, one: asked[other], other: asked[one]}
            again = await self._decide(judge, template.messages(exchanged), question)
            if not again.value:
                return Judgement(False, again.text, swap_failed=True)
        return judgement

    async def ask_each(
        self, asked: Iterable[Mapping[str, Any] | list[Item]], parse: Parser, **options: Any
    ) -> list[Judgement]:
        """Ask several questions at once; the verdicts (and the record) keep their order. Arguments as of `ask`."""
        tasks = [asyncio.ensure_future(self.ask(each, parse, **options)) for each in asked]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    def prompt(self, name: str = "judge") -> Prompt:
        """One of the class's prompts, or the user's."""
        prompt = self._prompts.get(name)
        if prompt is None:
            prompt = self._prompts[name] = _own_prompt(type(self), name)
        return prompt

    def _shown(self, value: Any) -> Any:
        """A value as a prompt shows it: a text that is too long without its middle."""
        longest = self.judge_max_characters
        if self.conform or not isinstance(value, str) or len(value) <= longest:
            return value
        left_out = len(value) - longest
        return f"{value[: longest // 2]}\n[… {left_out} characters left out …]\n{value[len(value) - longest // 2 :]}"

    @property
    def judge_evaluations(self) -> list[dict[str, Any]]:
        """The calls of this episode so far."""
        return [call for calls in self._calls for call in calls]

    async def _shared_judge(self) -> Judge:
        if self.judge is None:
            raise ValueError(f'{type(self).__name__} has no judge to ask: give judge="http://HOST:PORT/v1".')
        argument, cached, concurrency = self.judge, self.judge_cache, self.judge_endpoint_max_concurrency
        engine = await side_engine(self, argument)

        def make() -> Judge:
            most = 1_000_000 if concurrency is None else concurrency
            if isinstance(engine, ReplayedAnswers):  # each of its answers is for one call
                return Judge(engine, concurrency=most, cache=False)
            made_from = identity(argument, engine.model)
            if isinstance(cached, str):
                return Judge(engine, made_from, concurrency=most, cache=True, cache_file=cached)
            return Judge(engine, made_from, concurrency=most, cache=cached)

        judge: Judge = await self.shared(f"judge {shared_name(self, argument, cached, concurrency)}", make)
        return judge

    async def _decide(self, judge: Judge, messages: list[Item], question: _Question) -> Judgement:
        """The verdict of the votes."""
        if self.judge_votes == 1:
            return await self._vote(judge, messages, question, 0, question.calls)
        ballots: list[list[dict[str, Any]]] = [[] for _ in range(self.judge_votes)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._vote(judge, messages, question, number, calls))
                    for number, calls in enumerate(ballots)
                ]
        except* JudgeError as failures:
            raise failures.exceptions[0] from None
        for ballot in ballots:
            question.calls.extend(ballot)
        judgements = [task.result() for task in tasks]
        votes = [repr(judgement.value) for judgement in judgements]  # a value may be a dict
        (vote, most), *others = Counter(votes).most_common(2)
        if not others or others[0][1] < most:
            return judgements[votes.index(vote)]
        if all(isinstance(judgement.value, bool) for judgement in judgements):
            return Judgement(False, judgements[0].text)
        if question.unparsable is FAILS:
            raise JudgeError("The judge's votes are a draw.", failure_kind="judge_unparseable")
        return Judgement(question.unparsable, judgements[0].text)

    async def _vote(
        self, judge: Judge, messages: list[Item], question: _Question, vote: int, calls: list[dict[str, Any]]
    ) -> Judgement:
        """One verdict, after as many tries as it takes."""
        parse, params = question.parse, question.params
        answer, text = Answer("", {}), ""
        for retry in range(1 if self.conform else 1 + self.judge_retries):
            answer = await judge.ask(messages, params, sample=vote + retry * self.judge_votes)
            text = answer.text
            if self.conform and self.judge_thinks:
                text = strip_thinking(text, conform=True)
            value = parse(text if self.conform else strip_thinking(text, unclosed=True))
            calls.append(
                {
                    "responses_create_params": {"input": messages, **params.fields},
                    "response": answer.response,
                    "verdict_label": parse.name_of(value) if isinstance(parse, Labels) else value,
                }
            )
            if value is not None:
                return Judgement(value, text)
        if question.empty_fails and not text.strip():
            raise JudgeError("The judge said nothing.")
        if question.unparsable is FAILS:
            said = excerpt(answer.text[-200:], 200) if answer.text.strip() else "nothing"
            raise JudgeError(f"The judge's verdict cannot be read: {said}", failure_kind="judge_unparseable")
        return Judgement(question.unparsable, text)

    def _begin(self, index: int, prepared: PreparedTask) -> tuple[Request, dict[str, Any]]:
        self._calls = []
        return super()._begin(index, prepared)

    def _finish(self, episode: Episode, info: dict[str, Any]) -> float:
        reward = super()._finish(episode, info)
        info.setdefault("judge_evaluations", self.judge_evaluations)
        return reward


@dataclass(slots=True)
class _Question:
    """How a verdict is read, and where the calls are written down."""

    parse: Parser
    unparsable: Any
    empty_fails: bool
    params: Params
    calls: list[dict[str, Any]]


def _own_prompt(env: type[JudgedEnv], name: str) -> Prompt:
    """The prompt of this name of a class, or of the nearest class that it derives from."""
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
