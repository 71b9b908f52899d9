"""VLLMEngine: vLLM in this process, tokens in and tokens out."""

from __future__ import annotations

import asyncio
import atexit
import gc
import importlib.util
import itertools
import math
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from gym_llm.engines.constraints import as_shown
from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.engines.engine_response import log_prob_entry, overflow_response, text_response
from gym_llm.engines.grammar_masks import GrammarMasks
from gym_llm.engines.prompt_ids import build_prompt, check_model, prompt_tokens
from gym_llm.engines.sampling import INT64, sampling_arguments, turn_seed, wants_log_probs
from gym_llm.engines.scores import Scores, check_row
from gym_llm.engines.thoughts import settle_thought
from gym_llm.engines.vllm_process import first_line, make_llm
from gym_llm.engines.weights import Gate, UpdateMode, Weights, check_update, to_its_end, weights_folder
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.protocols.chat.completions import FINISH_REASONS
from gym_llm.tokens.prompt_tokens import History, PromptTokens
from gym_llm.tokens.routed_experts import pack_experts
from gym_llm.tokens.weight_versions import runs_between
from gym_llm.types import Request, ResponseDict
from gym_llm.utils.extras import INSTALL_VLLM as INSTALL

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

POCKET = {"enforce_eager": True, "kv_cache_memory_bytes": 512 << 20, "max_num_seqs": 128}
"""Engine arguments for the pocket model: small, and ready as soon as it can be."""


_KNOWN_SECONDS = 10.0
"""How long a paused vLLM may take to register each request."""


class VLLMEngine(Engine):
    """Answers requests with vLLM's `AsyncLLM`, which batches them itself.

    Prompts, the message with the sampled text, and its token fields are those of `TransformersEngine`. The engine
    argument `logprobs_mode` selects other log probabilities.

    The engine reads the same fields of a request, `top_logprobs`, and further names of `vllm serve`
    (`gym_llm.engines.sampling.PASSED_ON`: `stop`, `top_k`, `presence_penalty`, …). For a `tool_choice` that forces
    calls and a `text.format`, vLLM's backend `guidance` follows the grammar that `TransformersEngine` follows, too. The
    grammar covers thinking in `<think>` tags. A model with other tags needs the engine argument `reasoning_parser`:
    the grammar begins after its thinking.

    A response is `incomplete` for one of these reasons:

    - `max_output_tokens`: it reached that limit or the end of the context.
    - `context_length_exceeded`: the prompt does not fit, so there is no output.
    - `abort`: the engine was put to sleep.

    vLLM starts processes that import the main script again. So a script must use this engine under
    `if __name__ == "__main__":`. vLLM logs only errors, unless VLLM_LOGGING_LEVEL is set.

    Args:
        model: A Hugging Face model name or a folder, with a chat template; `"pocket"` for the packaged one.
        history: See `PromptTokens`.
        max_new_tokens: For requests that have no `max_output_tokens`; None for as many as the context holds.
        seed: With a seed, each turn's sampling depends only on (`seed`, `episode_id`, turn), up to the rounding of
            floats. This needs a generator per sequence, which takes a quarter more time on a CPU with the pocket model.
            None leaves the seed to vLLM.
        **engine_args: Engine arguments of vLLM, as for `vllm serve`: `tensor_parallel_size`, `data_parallel_size`,
            `distributed_executor_backend="ray"`, `max_model_len`, `gpu_memory_utilization` (default on a CPU: half of
            the free memory), ….

    Attributes:
        engine_args: The given engine arguments, with `model`.
        llm: The `AsyncLLM` of a started engine, for vLLM's own methods.

    Raises:
        EngineUnavailable: If vLLM is not installed.
        ValueError: If an argument is invalid.
    """

    capabilities = Capabilities(
        token_ids=True,
        tools=True,
        forced_calls=True,
        weights=True,
        seed="optional",
        loads_model=True,
        shared=True,
        scores=True,
    )

    @classmethod
    def gpus(cls, options: Mapping[str, Any]) -> int:
        """See `Engine.gpus`; with Ray as its executor vLLM finds them itself."""
        if options.get("distributed_executor_backend") == "ray":
            return 0
        return math.prod(options.get(f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline", "data"))

    def __init__(
        self,
        model: str,
        *,
        history: History = "template",
        max_new_tokens: int | None = None,
        seed: int | None = None,
        **engine_args: Any,
    ) -> None:
        check_model(model, history)
        if max_new_tokens is not None and (not isinstance(max_new_tokens, int) or max_new_tokens < 1):
            raise ValueError(f"max_new_tokens is a whole number, 1 or more, or None; got {max_new_tokens!r}.")
        if "structured_outputs_config" in engine_args:
            raise ValueError("structured_outputs_config is the engine's own: its grammars need the backend guidance.")
        if importlib.util.find_spec("vllm") is None:
            raise EngineUnavailable(f"The engine vllm:{model} needs vLLM: {INSTALL}.")
        self.model = model
        self.history: History = history
        self.max_new_tokens = max_new_tokens
        self.seed = seed
        self.llm: AsyncLLM | None = None
        self.engine_args = {"model": model, **engine_args}
        if model == "pocket":
            from gym_llm.engines.pocket import MODEL_PATH

            folder = MODEL_PATH
            self.engine_args = {**POCKET, **engine_args, "model": folder}
            self.max_new_tokens = max_new_tokens or 512
        self._numbers = itertools.count()
        self._live: dict[str, list[tuple[int, int]]] = {}  # of each request: its versions, and where they begin
        self._gate: Gate
        self._prompts: PromptTokens
        self._masks: GrammarMasks
        self._context = self._vocabulary = 0
        self._failure = ""
        self._asleep = False
        self._abandoned = False
        self._reload = "reload_weights"

    async def start(self) -> None:
        """Start vLLM; takes from half a minute (the pocket model) to many minutes.

        Again after `aclose`, or after weights that did not fit: with the model's own weights then.

        Raises:
            EngineUnavailable: If vLLM has no such engine argument, cannot start, or cannot load the model.
        """
        # Handed over in the attribute: the thread keeps what it returned, and vLLM's finalizer then runs too late.
        self._abandoned = self._asleep = False
        self._failure = ""
        self._gate = Gate()
        self._syncing = asyncio.Lock()  # held by an update, by falling asleep and by waking up, one after the other
        try:
            await asyncio.to_thread(self._start)
        except asyncio.CancelledError:
            self._abandoned = True  # the thread goes on; what it has started it stops
            await self.aclose()
            raise
        llm = self._started()
        ends = llm.model_config.try_get_generation_config().get("eos_token_id")
        tokenizer = llm.get_tokenizer()
        try:
            self._prompts = prompt_tokens(tokenizer, ends, self.history, what=f"model {self.model}")
        except EngineUnavailable:
            await self.aclose()
            raise
        self._context = llm.model_config.max_model_len
        self._prompts.limit_to(self._context)
        self._vocabulary = llm.model_config.get_vocab_size()
        vocabulary = max(self._vocabulary, len(tokenizer))
        self._masks = GrammarMasks(self._prompts, tokenizer, vocabulary, model=self.model)

    @property
    def context_tokens(self) -> int | None:
        """The length of the model's context; see `Engine.context_tokens`."""
        return self._context or None

    def prompt_ids(self, request: Request) -> list[int] | None:
        """Return the ids of a request's prompt; see `Engine.prompt_ids`."""
        return build_prompt(self._prompts, as_shown(request), conversation="", model=self.model)

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see the class and `Engine.respond`. Cancelling it cancels the request in vLLM."""
        from vllm import SamplingParams
        from vllm.exceptions import VLLMError
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        llm = self._started()
        arguments = sampling_arguments(request, max_new_tokens=self.max_new_tokens)
        mask = await self._masks.of(request)
        prompt = build_prompt(self._prompts, as_shown(request), conversation=episode_id, model=self.model)
        if len(prompt) >= self._context:
            return overflow_response(self.model, len(prompt))
        if self.seed is not None and "seed" not in arguments and episode_id:
            arguments["seed"] = turn_seed(self.seed, episode_id, len(request["input"])) % INT64
        # Text is made once, at the end; only stop strings need it token by token.
        by_token = bool(arguments.get("stop"))
        name = f"{episode_id}#{next(self._numbers)}"
        try:
            arguments["structured_outputs"] = mask and StructuredOutputsParams(grammar=mask.grammar)
            params = SamplingParams(
                **arguments,
                detokenize=by_token,
                skip_special_tokens=False,
                spaces_between_special_tokens=False,
                flat_logprobs=True,
                output_kind=RequestOutputKind.FINAL_ONLY,
                skip_clone=True,
            )
            given: Any = {"type": "token", "prompt_token_ids": prompt}
            # True: the grammar applies at once, since it covers `<think>`. None: after what the reasoning parser finds.
            is_whole = self._prompts.thinks or "reasoning_parser" not in self.engine_args
            async with self._gate.request():
                weights = self._live[name] = [(self.weight_version, 0)]
                answers = llm.generate(given, params, name, reasoning_ended=is_whole or None)
                async with aclosing(answers):
                    async for answer in answers:
                        output = answer.outputs[0]
        except (VLLMError, ValueError, TypeError, OverflowError) as error:
            if self.llm is None or self._failure:
                raise EngineError(self._failure or f"The engine for {self.model} is closed.") from None
            reason = error if str(error) else error.__cause__ or error
            raise EngineError(f"vLLM did not answer ({type(reason).__name__}): {str(reason)[:300]}") from error
        finally:
            self._live.pop(name, None)
        if output.finish_reason == "error":
            raise EngineError("vLLM failed on this request and says no more; its log does.")
        sampled = list(output.token_ids)
        ended = output.finish_reason == "stop" and not isinstance(output.stop_reason, str)
        if mask is not None and ended and output.stop_reason is None and is_whole:
            mask.accept_turn(sampled[:-1])
        text = output.text if by_token else self._prompts.decode(sampled[:-1] if ended else sampled)
        log_probs = [output.logprobs.logprobs[start] for start in output.logprobs.start_indices]
        incomplete = FINISH_REASONS.get(output.finish_reason)
        experts = getattr(output, "routed_experts", None)  # with the engine argument enable_return_routed_experts
        response = text_response(
            text,
            tokens=(prompt, sampled, log_probs),
            model=self.model,
            incomplete=incomplete,
            is_constrained=mask is not None,
            weight_versions=runs_between(weights, len(sampled)),
            routed_experts=None if experts is None else pack_experts(experts),
        )
        if wants_log_probs(request):
            entries = [self._entry(output.logprobs, n) for n in range(len(sampled))]
            response["output"][-1]["content"][0]["logprobs"] = entries
        return settle_thought(response, prompt, self._prompts)

    async def score(self, ids: Sequence[int], *, top_k: int = 0, adapter: str | None = None) -> Scores:
        """Return the log probabilities of a row; see `Engine.score`. The context has to have room for one more."""
        from vllm import SamplingParams
        from vllm.exceptions import VLLMError

        if adapter is not None:  # on a CPU, vLLM 0.32 crashes when it scores a prompt with LoRA
            raise EngineError(
                f"The engine vllm:{self.model} cannot score with an adapter: use transformers:{self.model}."
            )
        llm = self._started()
        row = check_row(ids, top_k, vocabulary=self._vocabulary, context=self._context - 1, model=self.model)
        params = SamplingParams(
            max_tokens=1, temperature=0.0, prompt_logprobs=top_k, detokenize=False, flat_logprobs=True
        )
        given: Any = {"type": "token", "prompt_token_ids": row}
        try:
            async with (
                self._gate.request(),
                aclosing(llm.generate(given, params, f"#{next(self._numbers)}")) as answers,
            ):
                async for answer in answers:
                    found: Any = answer.prompt_logprobs
        except (VLLMError, ValueError) as error:
            raise EngineError(self._failure or f"vLLM did not score: {str(error)[:300]}") from error
        starts, ends = found.start_indices, found.end_indices
        likeliest = None
        if top_k:  # each position has the given token, then the likeliest
            pairs = list(zip(found.token_ids, found.logprobs, strict=True))
            likeliest = [pairs[starts[n] + 1 : ends[n]][:top_k] for n in range(1, len(row))]
        return Scores([found.logprobs[starts[n]] for n in range(1, len(row))], likeliest)

    async def update_weights(self, weights: Weights, *, mode: UpdateMode = "wait", version: int | None = None) -> None:
        """See `WeightSync`. What was cached of prompts is forgotten with the old weights, unless the mode is `keep`."""
        self._started()
        check_update(mode, version, self.weight_version)
        async with self._syncing:
            llm = self._started()
            if self._asleep:  # vLLM would begin to answer, with its memory given away
                raise EngineError(f"The engine for {self.model} is asleep: `wake_up` comes before `update_weights`.")
            new_version = check_update(mode, version, self.weight_version)
            async with self._gate.alone() if mode == "wait" else self._gate.beside():
                with weights_folder(weights) as folder:
                    await to_its_end(self._update_weights(llm, folder, mode, new_version))

    async def _update_weights(self, llm: AsyncLLM, folder: str, mode: UpdateMode, version: int) -> None:
        try:
            # With its cache cleared vLLM reads a paused request again, with what it has sampled.
            await llm.pause_generation(mode="wait" if mode == "wait" else "keep", clear_cache=mode != "keep")
            await llm.collective_rpc(self._reload, kwargs={"weights_path": folder})
            await self._note_version(llm, version)
        except Exception as error:  # what a worker raised; it cannot compute with half of the weights
            self._failure = (
                f"vLLM could not take new weights and has to be started anew (`await engine.start()`): "
                f"{first_line(error)}"
            )
            await self.aclose()
            raise EngineError(self._failure) from error
        await llm.resume_generation()

    async def _note_version(self, llm: AsyncLLM, version: int) -> None:
        """Note how many tokens each paused request has, now that the next ones are of another version."""
        processor = llm.output_processor
        # A request that vLLM does not know is about to be registered, or has ended.
        deadline = time.monotonic() + _KNOWN_SECONDS
        while any(name not in processor.external_req_ids for name in self._live) and time.monotonic() < deadline:
            await asyncio.sleep(0)
        for name, weights in self._live.items():
            states = [processor.request_states[request] for request in processor.external_req_ids.get(name, ())]
            weights.append((version, states[0].detokenizer.num_output_tokens() if states else 0))
        self.weight_version = version

    async def sleep(self, level: int = 1) -> None:
        """See `WeightSync`. Levels 1 and 2 need the engine argument `enable_sleep_mode=True`; on a CPU all are 0."""
        self._started()
        async with self._syncing:
            llm = self._started()
            if level and not llm.model_config.enable_sleep_mode and llm.vllm_config.device_config.device_type != "cpu":
                raise EngineError("Sleeping needs the engine argument enable_sleep_mode=True, given when vLLM starts.")
            self._asleep = True
            await to_its_end(llm.sleep(level))

    async def wake_up(self) -> None:
        """See `WeightSync`."""
        self._started()
        async with self._syncing:
            await to_its_end(self._wake_up(self._started()))

    async def _wake_up(self, llm: AsyncLLM) -> None:
        await llm.wake_up()
        self._asleep = False

    async def aclose(self) -> None:
        """Stop vLLM's processes; requests under way fail."""
        llm, self.llm = self.llm, None
        if llm is not None:
            from vllm.v1.engine.exceptions import EngineDeadError

            if llm.output_handler is not None:
                llm.output_handler.cancel()  # else it takes the end of vLLM's processes for a failure
            await asyncio.to_thread(llm.shutdown)
            llm.output_processor.propagate_error(EngineDeadError())  # else requests under way wait for ever
            del llm
            gc.collect()  # else its finalizer runs when the interpreter has torn down what it calls

    def _start(self) -> None:
        self.llm, self._reload = make_llm(self.model, self.engine_args)
        self.weight_version = 0
        _engines.add(self)
        # Registered last, this runs first: before multiprocessing ends vLLM's processes.
        atexit.unregister(_shut_down_forgotten)
        atexit.register(_shut_down_forgotten)
        if self._abandoned:
            _shut_down(self)

    def _started(self) -> AsyncLLM:
        if self.llm is None or self._failure:
            raise EngineError(self._failure or f"The engine for {self.model} is not started: use `async with engine`.")
        return self.llm

    def _entry(self, log_probs: Any, position: int) -> dict[str, Any]:
        """One position's log probabilities as the Responses API has them: the sampled token, then the likeliest."""
        places = range(log_probs.start_indices[position], log_probs.end_indices[position])
        bytes_of = self._prompts.token_bytes
        entries = [(bytes_of(log_probs.token_ids[place]), log_probs.logprobs[place]) for place in places]
        return log_prob_entry(*entries[0], [entry for entry in entries[1:] if entry[1] > -math.inf])


_engines: weakref.WeakSet[VLLMEngine] = weakref.WeakSet()


def _shut_down_forgotten() -> None:
    """Stop the engines that are still open. Later vLLM mistakes the end of its processes for a failure.

    Without an event loop or a thread, because the interpreter is ending.
    """
    for engine in list(_engines):
        _shut_down(engine)
    gc.collect()


def _shut_down(engine: VLLMEngine) -> None:
    """Stop an engine from outside its event loop."""
    from vllm.utils.async_utils import cancel_task_threadsafe

    llm, engine.llm = engine.llm, None
    if llm is not None:
        if llm.output_handler is not None:
            cancel_task_threadsafe(llm.output_handler)
        llm.shutdown()
