"""Random conversations, played with a sampler that draws any token ids, and checked to the last id.

What has to come after a turn is said twice: by the chat template, and here in Python by `Shape.after`. The functions
under test see only the template.
"""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from testing import often

from gym_llm.core.tools import tool
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.tokens.template import chat_prompt
from gym_llm.wrappers import ReasoningParser, TokenIdTracking, ToolCallParser

Item = dict[str, Any]
POCKET = resources.files("gym_llm.engines.pocket") / "model"
FOLDER = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Shape:
    """How a template writes what is new: the oracle for what it has to put after a model turn."""

    stop: str
    after_stop: str
    user: Callable[[str], str]
    tools: Callable[[list[str]], str]
    generation: str
    before_answer: str = ""
    """What the template writes between the generation prompt and the answer."""

    def after(self, items: list[Item], stopped: bool) -> str:
        """Everything after what was sampled: the closing, the new items, the generation prompt."""
        texts = ["" if stopped else self.stop, self.after_stop]
        results: list[str] = []
        for item in [*items, None]:
            if item is not None and item.get("type") == "function_call_output":
                results.append(item["output"])
                continue
            if results:
                texts.append(self.tools(results))
                results = []
            if item is not None:
                texts.append(self.user(item["content"]))
        return "".join([*texts, self.generation])


def _chatml(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def _chatml_user(text: str) -> str:
    return _chatml("user", text)


def _each_tool(results: list[str]) -> str:
    return "".join(_chatml("tool", result) for result in results)


def _grouped(results: list[str]) -> str:
    responses = "".join(f"\n<tool_response>\n{result}\n</tool_response>" for result in results)
    return f"<|im_start|>user{responses}<|im_end|>\n"


SHAPES = {
    "pocket": Shape("<|im_end|>", "\n", _chatml_user, _grouped, "<|im_start|>assistant\n"),
    "strips_thinking": Shape("<|im_end|>", "\n", _chatml_user, _each_tool, "<|im_start|>assistant\n<think>\n"),
    "keeps_thinking": Shape("<|im_end|>", "\n", _chatml_user, _each_tool, "<|im_start|>assistant\n"),
    "default_system": Shape("<|im_end|>", "\n", _chatml_user, _grouped, "<|im_start|>assistant\n"),
    "no_newline": Shape(
        "<|im_end|>",
        "",
        lambda text: f"<|im_start|>user<|im_sep|>{text.strip()}<|im_end|>",
        lambda results: "".join(f"<|im_start|>tool<|im_sep|>{result.strip()}<|im_end|>" for result in results),
        "<|im_start|>assistant<|im_sep|>",
    ),
    "tool_results_as_user": Shape(
        "</s>",
        "",
        lambda text: f"[INST] {text} [/INST]",
        lambda results: "".join(f"[INST] Result: {result} [/INST]" for result in results),
        "",
        before_answer=" ",
    ),
}


@functools.cache
def tokenizer_for(template: str) -> Any:
    """The pocket model's tokenizer with this template and the special tokens that it needs."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(POCKET))
    if template != "pocket":
        tokenizer.chat_template = (FOLDER / f"{template}.jinja").read_text("utf-8")
        tokenizer.add_tokens(["<|im_sep|>", "</s>"], special_tokens=True)
    return tokenizer


# What is said -------------------------------------------------------------------------------------------------------

_PIECES = [
    *("The", " answer", " is", "4", "42", " 1000", ".", "\n", "\n\n", " ", "  ", "\t", "\r\n", "{", "}", '"', "\\"),
    *("é", "e\u0301", "日本", "😀", "👩‍👧", "\u00a0", "\u2028", "\ufeff", "\x00", "א", "ß", "\ufffd"),
    *("<think>", "</think>", "<", "<|", "im_end", "|>", "[/INST]", "</s>", "<tool_response>", "<|im_start|>"),
]


def _text(rng: random.Random, most: int = 8) -> str:
    return "".join(rng.choices(_PIECES, k=rng.randint(0, most)))


def _plain(rng: random.Random) -> str:
    """A text that templates leave as it is."""
    return "x" + "".join(rng.choices(_PIECES[:6], k=rng.randint(0, 5))) + "."


def _answer(rng: random.Random) -> str:
    """A model's turn as text: thinking, words, calls; in the style of templates, or not, or broken."""
    tidy = rng.random() < 0.6
    words: Callable[[random.Random], str] = _plain if tidy else _text
    answer = ""
    if rng.random() < 0.5:
        answer += f"<think>\n{words(rng)}\n</think>\n\n" if tidy else f"<think>{words(rng)}</think>"
    if rng.random() < 0.7:
        answer += words(rng)
    if rng.random() < 0.5:
        for _ in range(rng.choice([1, 1, 2, 3])):
            call = {"name": rng.choice(["look", "look", "fly"]), "arguments": {"place": words(rng)}}
            text = json.dumps(call, ensure_ascii=False, separators=None if tidy else (",", ":"))
            if not tidy and rng.random() < 0.3:
                text = text[: rng.randrange(len(text))]
            answer += f"{chr(10) if answer else ''}<tool_call>\n{text}\n</tool_call>"
    return answer


class Talk(VerifierEnv):
    """A user and a tool that say anything."""

    def setup(self, task: Any) -> random.Random:
        """The episode's random numbers."""
        return random.Random(task.seed)

    @tool
    def look(self, state: random.Random, place: str) -> str:
        """Look at a place.

        Args:
            place: Where to look.
        """
        return _text(state)

    def user_turn(self, task: Any, episode: Any) -> list[Item] | None:
        """One or several user messages, or the end."""
        rng = episode.state
        if rng.random() < 0.3:
            return None
        return [{"role": "user", "content": _text(rng)} for _ in range(rng.choice([1, 1, 1, 2]))]

    def verify(self, task: Any, episode: Any) -> float:
        """Nothing to score."""
        return 0.0


class RandomSampler:
    """Draws token ids: a text's own, the text's in another tokenisation, or any at all; with or without an end."""

    def __init__(self, tokenizer: Any, shape: Shape, rng: random.Random) -> None:
        self._tokenizer = tokenizer
        self._shape = shape
        self._rng = rng
        self.stop = tokenizer.convert_tokens_to_ids(shape.stop)
        self._any = [index for index in range(len(tokenizer)) if index != self.stop]

    def sample(self) -> tuple[list[int], bool]:
        """Token ids, and whether they end with the stop token."""
        rng = self._rng
        kind = rng.random()
        if kind < 0.1:
            ids = rng.choices(self._any, k=rng.randint(0, 12))
        else:
            answer = self._shape.before_answer + _answer(rng)
            pieces = [answer]
            if kind < 0.5 and answer:
                cuts = sorted(rng.choices(range(len(answer)), k=rng.randint(1, 6)))
                pieces = [answer[a:b] for a, b in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
            ids = [token for piece in pieces for token in self._encode(piece)]
            ids = [token for token in ids if token != self.stop]
        if rng.random() < 0.15:
            return ids[: rng.randint(0, len(ids))], False
        return [*ids, self.stop], True

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids


# Playing and checking -----------------------------------------------------------------------------------------------


CONVERSATIONS = often(300, 1000)
"""Conversations for each template and history."""


def of_all_conversations(test: Any) -> Any:
    """Marks a test of `play_all`: one process plays for all such tests, and not while you work."""
    return pytest.mark.slow(pytest.mark.xdist_group("conversations")(test))


@functools.cache
def play_all(template: str, history: str, conversations: int = CONVERSATIONS) -> tuple[Counter[str], tuple[str, ...]]:
    """Play conversations and check them.

    Returns:
        Counts: `turns`, `segments`, what was met on the way, and for everything that has to be exact how often it was
        not (`wrong …`); and the first few wrong cases in words.
    """
    tokenizer, shape = tokenizer_for(template), SHAPES[template]
    stop = tokenizer.convert_tokens_to_ids(shape.stop)
    prompts = PromptTokens(tokenizer, stop_token_ids=[stop], history=history)
    row: dict[str, Any] = {"responses_create_params": {"input": "Go."}, "seed": 0}
    env = TokenIdTracking(ReasoningParser(ToolCallParser(Talk(tasks=[row], max_turns=6))))
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(conversations):
        _Conversation(template, history, env, prompts, tokenizer, random.Random(seed), counts, wrong).play(seed)
    return counts, tuple(wrong)


class _Conversation:
    def __init__(
        self,
        template: str,
        history: str,
        env: Any,
        prompts: PromptTokens,
        tokenizer: Any,
        rng: random.Random,
        counts: Counter[str],
        wrong: list[str],
    ) -> None:
        self._shape = SHAPES[template]
        self._template = template
        self._history = history
        self._env = env
        self._prompts = prompts
        self._tokenizer = tokenizer
        self._rng = rng
        self._counts = counts
        self._wrong = wrong
        self._sampler = RandomSampler(tokenizer, self._shape, rng)

    def _check(self, what: str, given: Any, expected: Any) -> None:
        if given != expected:
            self._counts[f"wrong {what}"] += 1
            if len(self._wrong) < 5:
                self._wrong.append(f"{what}: {given!r} is not {expected!r}")

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.backend_tokenizer.decode(ids, skip_special_tokens=False)

    def play(self, seed: int) -> None:
        """One conversation."""
        rng, counts = self._rng, self._counts
        first: list[Item] = [{"role": "user", "content": _text(rng)}]
        if rng.random() < 0.5 and self._template != "tool_results_as_user":
            first.insert(0, {"role": "system", "content": _text(rng)})
        row = {"responses_create_params": {"input": first}, "seed": seed}
        request, _ = self._env.reset(options={"task": row})
        if rng.random() < 0.5:
            request.pop("tools")
        name = f"conversation {seed}" if rng.random() < 0.5 else ""
        segments: list[list[tuple[list[int], list[int], list[float]]]] = []
        said = before = ""
        seen = 0
        ended = False
        while not ended:
            if "tools" not in request or name.endswith("3"):
                request = {key: value for key, value in request.items() if key != "tools"}
            prompt = self._prompts.build(request, conversation=name)
            before = self._turn(request, prompt, segments, said, seen)
            sampled, stopped = self._sampler.sample()
            log_probs = [-rng.random() for _ in sampled]
            if sampled:
                segments[-1].append((prompt, sampled, log_probs))
            text = self._decode(sampled[:-1] if stopped else sampled)
            said = before + text + (self._shape.stop if stopped else "")
            seen = len(request["input"])
            # A stop string or a caller's own limit ends a turn without its token, too, and the episode goes on.
            status = "completed" if stopped or rng.random() < 0.7 else "incomplete"
            message = {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
                "prompt_token_ids": prompt,
                "generation_token_ids": sampled,
                "generation_log_probs": log_probs,
            }
            request, _, terminated, truncated, info = self._env.step({"output": [message], "status": status})
            ended = terminated or truncated
            counts["turns"] += 1
            counts["cut turns"] += not stopped
        self._trajectory(info, segments)

    def _turn(self, request: Any, prompt: list[int], segments: list[Any], said: str, seen: int) -> str:
        """Check a turn's prompt; returns its text. Begins a new segment where there has to be one."""
        counts = self._counts
        shown = chat_prompt(request, self._tokenizer)
        turn = request["input"][seen:]
        last = max((i for i, item in enumerate(turn) if "generation_token_ids" in item), default=None)
        if last is None:
            self._check("first prompt", prompt, self._encode(shown))
            segments.append([])
            return shown
        earlier = turn[last]["prompt_token_ids"] + turn[last]["generation_token_ids"]
        sampled = turn[last]["generation_token_ids"]
        stopped = bool(sampled) and sampled[-1] == self._sampler.stop
        after = self._shape.after(turn[last + 1 :], stopped)
        goes_on = shown.startswith(said)
        if goes_on and (stopped or self._history == "template"):
            completed = shown[len(said) :].removesuffix(after)
            if completed and not stopped:
                # A turn that was cut in its thinking or in a call: the template writes what is missing.
                counts["cut turns that the template completes"] += 1
                after = completed + after
            self._check("template's suffix", shown[len(said) :], after)
            counts["prompts that go on"] += 1
            counts["prompts that text would have changed"] += self._encode(shown) != prompt
        if goes_on or self._history == "append":
            self._check("prefix", prompt[: len(earlier)], earlier)
            self._check("suffix", prompt[len(earlier) :], self._encode(after))
            self._check("text", self._decode(prompt), said + after)
            shown = said + after
        else:
            counts["rewritten prompts"] += 1
            self._check("new prompt", prompt, self._encode(shown))
            self._check("text", self._decode(prompt), shown)
            segments.append([])
        return shown

    def _trajectory(self, info: dict[str, Any], segments: list[Any]) -> None:
        """Check what the wrapper gives against what was sampled."""
        counts = self._counts
        trajectory = info.get("trajectory", "none")
        segments = [segment for segment in segments if segment]
        self._check("number of segments", len(trajectory), len(segments))
        counts["segments"] += len(segments)
        counts["conversations that text would have changed"] += any(
            self._encode(self._decode(segment["input_ids"])) != segment["input_ids"] for segment in trajectory
        )
        for given, segment in zip(trajectory, segments, strict=False):
            ids, mask, log_probs = list(segment[-1][0] + segment[-1][1]), [], []
            for prompt, sampled, sampled_log_probs in segment:
                mask += [0] * (len(prompt) - len(mask)) + [1] * len(sampled)
                log_probs += [0.0] * (len(prompt) - len(log_probs)) + sampled_log_probs
            self._check("input_ids", given["input_ids"], ids)
            self._check("loss_mask", given["loss_mask"], mask)
            self._check("logprobs", given["logprobs"], log_probs)
            drawn = [token for _, sampled, _ in segment for token in sampled]
            masked = [token for token, on in zip(given["input_ids"], given["loss_mask"], strict=True) if on]
            self._check("sampled ids under the mask", masked, drawn)
