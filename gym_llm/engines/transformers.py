"""The engine for Hugging Face models in this process: real token ids and log probabilities, on CPU or one GPU."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gym_llm.engines.constraints import as_shown
from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.engines.engine_response import log_prob_entry, text_response
from gym_llm.engines.errands import Errands, resolve
from gym_llm.engines.grammar_masks import GrammarMasks, TokenMask
from gym_llm.engines.prompt_ids import build_prompt, check_model, objection, prompt_tokens
from gym_llm.engines.sampling import check_sampling, turn_seed, wants_log_probs
from gym_llm.engines.scores import MOST_LIKELIEST, Scores, check_row
from gym_llm.engines.thoughts import settle_thought
from gym_llm.engines.weights import Gate, UpdateMode, Weights, check_update, load_weights, to_its_end, weights_folder
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.records.failures import reason
from gym_llm.tokens.prompt_tokens import History, PromptTokens
from gym_llm.tokens.weight_versions import runs_between
from gym_llm.types import Request, ResponseDict
from gym_llm.utils.extras import install

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from gym_llm.engines.decoding import Decoder, TokenSequence


@dataclass(slots=True, eq=False)
class _Job:
    """One request on its way through the worker thread."""

    request: Request
    conversation: str
    random: np.random.Generator
    mask: TokenMask | None
    future: asyncio.Future[ResponseDict]


_WAKE: Any = object()
"""In the queue of jobs: the worker is to look at its errands."""


class TransformersEngine(Engine):
    """Answers requests with a local causal language model, all concurrent requests in one batch.

    A worker thread generates. Requests join the running batch between two tokens and are answered as soon as they are
    finished. A prompt that shares a prefix with one of the batch, or with an earlier turn, copies its keys and values.
    At most 256 MiB are kept of earlier turns. The output is one message with the sampled text (`<think>` and
    `<tool_call>` included, the end-of-turn token left out), which parsers turn into items. The message carries the
    turn's `gym_llm.types.TOKEN_FIELDS`: the sampled ids with the end-of-turn token, if it was sampled, and their log
    probabilities. These are the model's own, at temperature 1 and before `top_p`, as a trainer recomputes them.
    `gym_llm.tokens.prompt_tokens.PromptTokens` builds the prompts.

    The engine reads the request's `temperature` (default 1.0; 0 is greedy), `top_p` and `max_output_tokens`, and the
    chat template's variables. `tool_choice` "none" shows the model no tools. A `tool_choice` that forces calls and a
    `text.format` limit what is sampled (`gym_llm.engines.constraints`); the log probabilities are then those among the
    allowed tokens. `include` returns the sampled tokens' log probabilities, and `top_logprobs` those of the most likely
    tokens, too.

    A response is `incomplete` with the reason `max_output_tokens` if it reaches that limit or the end of the context. A
    prompt that fills the context gets an empty response. The generator for sampling has the seed (`seed`, `episode_id`,
    turn). So sampling does not depend on other sequences in the batch, except for the rounding of floats.

    Args:
        model: A Hugging Face model name or a local folder, with a chat template. Every layer must be an attention
            layer; the context of models with sliding-window attention ends at their window.
        device: A torch device, or `"auto"`: a GPU if there is one.
        dtype: A torch dtype's name, or `"auto"`: the checkpoint's on a GPU, float32 on the CPU.
        max_batch_size: Requests generated at the same time; others wait.
        max_new_tokens: Limit for requests without `max_output_tokens`.
        threads: CPU threads that torch uses in this process; None keeps torch's setting. Small models are as fast with
            one thread, and many times faster on a shared processor: OpenMP's threads wait for one another.
        seed: Seed of all sampling.
        history: See `PromptTokens`.

    Raises:
        ValueError: If an argument is invalid.
    """

    capabilities = Capabilities(
        token_ids=True, tools=True, forced_calls=True, weights=True, seed="always", loads_model=True, scores=True
    )

    def __init__(
        self,
        model: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_batch_size: int = 64,
        max_new_tokens: int = 1024,
        threads: int | None = None,
        seed: int = 0,
        history: History = "template",
    ) -> None:
        check_model(model, history)
        counts = {"max_batch_size": max_batch_size, "max_new_tokens": max_new_tokens, "threads": threads}
        for name, value in counts.items():
            if (value is not None or name != "threads") and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} is a whole number, 1 or more; got {value!r}.")
        self.model = model
        self.max_batch_size = max_batch_size
        self.max_new_tokens = max_new_tokens
        self.seed = seed
        self.history = history
        self._path = model
        self._loaded: tuple[Any, Any] | None = None  # model and tokenizer, where they are the caller's
        self._threads = threads
        self._device = device
        self._dtype = dtype
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._errands: Errands
        self._thread: threading.Thread | None = None
        self._failure: EngineError | None = EngineError(
            f"The engine for {model} is not started: use `async with engine`."
        )
        self._closing = False
        self._anonymous = 0
        self._vocabulary = 0
        self._tokenizer: Any = None
        self._prompts: PromptTokens
        self._decoder: Decoder
        self._masks: GrammarMasks
        self._model: Any = None
        self._context = 0
        self._loop: asyncio.AbstractEventLoop
        self._gate: Gate

    @classmethod
    def of(cls, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, **options: Any) -> TransformersEngine:
        """Return an engine for a model that is already in memory: a trainer samples the model that it trains.

        The caller keeps the model, and may change its weights between requests, not during one. The caller puts it into
        evaluation mode before the first request. The model must use SDPA attention, and the tokenizer a chat template.
        Options are those of the class except `device` and `dtype`.

        Raises:
            ValueError: If an option is invalid.
        """
        for name in ("device", "dtype"):
            if name in options:
                raise ValueError(f"{name} is for a model that is to be loaded, but this one is loaded: leave it out.")
        engine = cls(model.config.name_or_path or type(model).__name__, **options)
        engine._loaded = (model, tokenizer)
        engine.capabilities = replace(cls.capabilities, weights=False)
        return engine

    async def start(self) -> None:
        """Load the model and start the worker thread.

        Raises:
            EngineUnavailable: If torch or transformers is missing, or the model cannot be loaded or used.
        """
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._load)
        self._failure, self._closing = None, False
        self._gate = Gate()
        self._jobs = queue.SimpleQueue()
        self._errands = Errands(self._loop, self._score_rows)
        self._thread = threading.Thread(target=self._work, name=f"gym_llm {self.model}", daemon=True)
        self._thread.start()

    @property
    def context_tokens(self) -> int | None:
        """The length of the model's context; see `Engine.context_tokens`."""
        return self._context or None

    def prompt_ids(self, request: Request) -> list[int] | None:
        """Return the ids of a request's prompt; see `Engine.prompt_ids`."""
        return build_prompt(self._prompts, as_shown(request), conversation="", model=self.model)

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see the class and `Engine.respond`."""
        if self._failure is not None:
            raise self._failure
        fields = check_sampling(request)
        if not 0 <= (count := fields.get("top_logprobs", 0)) <= MOST_LIKELIEST:
            raise EngineError(f"top_logprobs is 0 to {MOST_LIKELIEST}, got {count}.")
        conversation = episode_id
        if not episode_id:
            self._anonymous += 1
            episode_id = f"\0{self._anonymous}"
        random = np.random.default_rng(turn_seed(self.seed, episode_id, len(request["input"])))
        mask = await self._masks.of(request)
        request = as_shown(request)
        async with self._gate.request():
            future = self._loop.create_future()
            self._jobs.put(_Job(request, conversation, random, mask, future))
            if self._failure is not None:  # the worker may have ended between the two looks: nobody reads the queue
                future.cancel()
                raise self._failure
            response: ResponseDict = await future
            return response

    async def score(self, ids: Sequence[int], *, top_k: int = 0, adapter: str | None = None) -> Scores:
        """Return the log probabilities of a row; see `Engine.score`."""
        if self._failure is not None:
            raise self._failure
        row = check_row(ids, top_k, vocabulary=self._vocabulary, context=self._context, model=self.model)
        async with self._gate.request():
            future = self._errands.score(row, top_k, adapter)
            self._wake(future)
            return await future

    async def update_weights(self, weights: Weights, *, mode: UpdateMode = "wait", version: int | None = None) -> None:
        """See `WeightSync`; weights that do not fit are refused before any is replaced, and the engine goes on."""
        check_update(mode, version, self.weight_version)
        if self._failure is not None:
            raise self._failure
        if self._loaded is not None:
            raise EngineError(f"The model of {self.model} is the caller's: its weights are read at every request.")

        def replace_weights(folder: str) -> None:
            load_weights(self._model, folder)
            self.weight_version = check_update(mode, version, self.weight_version)
            self._decoder.change_weights(self.weight_version, recompute=mode == "recompute")

        async with self._gate.alone() if mode == "wait" else self._gate.beside():
            with weights_folder(weights) as folder:
                future = self._errands.add(lambda: replace_weights(folder))
                self._wake(future)
                await to_its_end(future)

    async def sleep(self, level: int = 1) -> None:
        """See `WeightSync`; requests under way are answered first. No GPU's memory is freed: there is only level 0."""
        if level and self._model.device.type != "cpu":
            raise EngineError(f"The engine for {self.model} keeps the GPU's memory: level=0 only stops answering.")
        await self._gate.sleep()

    async def wake_up(self) -> None:
        """See `WeightSync`."""
        await self._gate.wake_up()

    async def aclose(self) -> None:
        """Stop the worker thread; requests under way fail with an `EngineError`."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._closing = True
            self._masks.close()
            self._jobs.put(None)  # wakes it
            await asyncio.to_thread(thread.join)
            await self._gate.wake_up()  # for whoever waits: to learn that it is closed
            del self._decoder, self._adapters

    def _wake(self, future: asyncio.Future[Any]) -> None:
        """Have the worker look at its errands; raise the error of a worker that has ended."""
        self._jobs.put(_WAKE)
        if self._failure is not None:
            future.cancel()
            raise self._failure

    def _load(self) -> None:
        try:
            import torch  # noqa: F401

            from gym_llm.engines.decoding import Decoder
            from gym_llm.engines.local_model import check_attention, load_model
            from gym_llm.engines.scoring import Adapters
        except ImportError as error:
            raise EngineUnavailable(f"The {self.model} engine needs {error.name}: {install('local')}.") from None
        if self._loaded is None:
            self._model, self._tokenizer = load_model(self._path, self._device, self._dtype, name=self.model)
            self.weight_version = 0
        else:
            self._model, self._tokenizer = self._loaded
        self._context = check_attention(self._model, name=self.model)
        ends = self._model.generation_config.eos_token_id
        self._prompts = prompt_tokens(self._tokenizer, ends, self.history, what=f"model {self.model}")
        self._prompts.limit_to(self._context)
        self._vocabulary = self._model.config.get_text_config().vocab_size
        self._masks = GrammarMasks(self._prompts, self._tokenizer, self._vocabulary, model=self.model)
        self._decoder = Decoder(self._model, self._prompts.stop_token_ids, keeps=self._loaded is None)
        self._adapters = Adapters(self._model)

    # -- in the worker thread ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)  # here, not in `_load`: OpenMP keeps the number per thread
        waiting: list[TokenSequence] = []
        decoder = self._decoder
        failure = EngineError(f"The engine for {self.model} is closed.", failure_kind="shutdown")
        try:
            while self._take(waiting, block=not (waiting or decoder.sequences or self._errands.scores)):
                self._errands.run()
                decoder.version = self.weight_version
                decoder.drop([sequence for sequence in decoder.sequences if sequence.owner.cancelled()])
                waiting = [sequence for sequence in waiting if not sequence.owner.cancelled()]
                free = self.max_batch_size - len(decoder.sequences)
                decoder.add(waiting[:free])
                del waiting[:free]
                if decoder.sequences:
                    self._deliver([(sequence.owner, self._answer(sequence)) for sequence in decoder.step()])
        except Exception as error:
            why = reason(error)
            memory = isinstance(error, MemoryError) or "out of memory" in why  # torch's class depends on the device
            failure = EngineError(
                f"The engine for {self.model} stopped: {why}",
                failure_kind="provider_oom_killed" if memory else "provider_unavailable",
            )
            failure.__cause__ = error
        # First `_failure`, then the queue: whoever puts a job afterwards sees it and does not wait for an answer.
        self._failure = failure
        futures = [sequence.owner for sequence in (*decoder.sequences, *waiting)]
        while not self._jobs.empty():
            if (job := self._jobs.get()) is not None and job is not _WAKE:
                futures.append(job.future)
        self._deliver([(future, failure) for future in (*futures, *self._errands.left())])

    def _take(self, waiting: list[TokenSequence], block: bool) -> bool:
        """Move jobs from the queue to `waiting`, no more than one batch; False when the engine is to stop."""
        while block or (len(waiting) < self.max_batch_size and not self._jobs.empty()):
            job = self._jobs.get()
            block = False
            if self._closing or job is None:
                if job is not None:
                    self._jobs.put(job)
                return False
            if job is _WAKE:
                continue
            if job.future.cancelled():
                continue
            try:
                sequence = self._sequence(job)
            except Exception as error:
                failure = error if isinstance(error, EngineError) else objection(self.model, error)
                self._deliver([(job.future, failure)])
                continue
            if sequence.max_new_tokens < 1:
                self._deliver([(job.future, self._answer(sequence))])
            else:
                waiting.append(sequence)
        return not self._closing

    def _sequence(self, job: _Job) -> TokenSequence:
        from gym_llm.engines.decoding import TokenSequence

        prompt = self._prompts.build(job.request, conversation=job.conversation)
        if prompt and not 0 <= min(prompt) <= max(prompt) < self._vocabulary:
            raise EngineError(f"The request's items have token ids of another model than {self.model}.")
        fields: dict[str, Any] = {name: value for name, value in job.request.items() if value is not None}
        limit = min(fields.get("max_output_tokens", self.max_new_tokens), self._context - len(prompt))
        return TokenSequence(
            prompt,
            limit,
            fields.get("temperature", 1.0),
            fields.get("top_p", 1.0),
            job.random,
            job.future,
            mask=job.mask,
            top_log_probs=fields.get("top_logprobs", 0) if wants_log_probs(job.request) else None,
        )

    def _answer(self, sequence: TokenSequence) -> ResponseDict | EngineError:
        ids = sequence.sampled
        if sequence.failure is not None:
            return sequence.failure
        try:
            text = self._prompts.decode(ids[:-1] if sequence.stopped else ids)
        except Exception as error:  # a tokenizer's objection to an id that only the model has
            text = f"{self.model} sampled what cannot be decoded: {reason(error)}"
            return EngineError(text, failure_kind="agent_run_error")
        response = text_response(
            text,
            tokens=(sequence.prompt, ids, sequence.log_probs),
            model=self.model,
            incomplete=None if sequence.stopped else "max_output_tokens",
            is_constrained=sequence.mask is not None,
            weight_versions=runs_between(sequence.weights, len(ids)),
        )
        if sequence.top_log_probs is not None:
            response["output"][-1]["content"][0]["logprobs"] = self._entries(sequence)
        return settle_thought(response, sequence.prompt, self._prompts)

    def _entries(self, sequence: TokenSequence) -> list[dict[str, Any]]:
        """The log probabilities of a sequence as the Responses API has them."""
        bytes_of, likeliest = self._prompts.token_bytes, sequence.likeliest
        entries = []
        for place, (token, log_prob) in enumerate(zip(sequence.sampled, sequence.log_probs, strict=True)):
            others = [(bytes_of(each), value) for each, value in likeliest[place]] if likeliest else ()
            entries.append(log_prob_entry(bytes_of(token), log_prob, others))
        return entries

    def _score_rows(self, rows: list[tuple[list[int], int]], adapter: str | None) -> list[Scores]:
        from gym_llm.engines.scoring import score_rows

        return score_rows(self._model if adapter is None else self._adapters.model_with(adapter), rows)

    def _deliver(self, results: list[tuple[asyncio.Future[ResponseDict], ResponseDict | EngineError]]) -> None:
        if results and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(resolve, results)
