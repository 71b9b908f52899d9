"""PromptTokens: the next prompt's token ids, made from those that were already read and sampled.

If a conversation's text is tokenised anew for every turn, the model reads ids that it never sampled. Most texts have
many tokenisations, and the sampled one may differ from the tokenizer's own. A trainer would then compute probabilities
of tokens that were never drawn ("retokenization drift", https://blog.vllm.ai/2025/10/22/agent-lightning.html).
"""

from __future__ import annotations

import functools
import re
from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Any, Literal, cast, get_args

from gym_llm.errors import EngineError
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.tokens.call_format import CallFormat, call_format
from gym_llm.tokens.template import render, template_variables
from gym_llm.tokens.template_profile import message_form
from gym_llm.tokens.token_bytes import TokenBytes
from gym_llm.types import Item, Request
from gym_llm.utils.secrets import redacted_logger
from gym_llm.utils.text import excerpt

logger = redacted_logger(__name__)

History = Literal["template", "append"]
"""What a later prompt has of earlier turns that the template shows in another form than sampled; see `PromptTokens`."""

CACHED_CHARACTERS = 32_000_000
"""Text of the latest prompts that is remembered, over all conversations; their ids take about as much memory."""
_MODEL_ITEMS = ("reasoning", "function_call")


class PromptTokens:
    """A builder of prompts as token ids, for engines that have a tokenizer.

    The first prompt of a conversation is the output of the chat template, tokenised. A later prompt starts with the ids
    that the last model turn carries (`prompt_token_ids`, `generation_token_ids`; see `gym_llm.types.Item`), unchanged.
    Only the text after them is tokenised: the end of the turn, the messages since then, and the start of the next turn.
    The end of a turn includes the end-of-turn token if the turn was cut off before it.

    This requires that the template repeats the conversation unchanged. The builder checks it for every prompt: the
    prompt's text must begin with the text of the ids. Some templates rewrite history: Qwen3 drops the reasoning of
    finished turns, others trim texts or format arguments in their own JSON style. In that case:

    - `history="template"` uses the template's text, tokenised anew. A trainer gets a new segment
      (`gym_llm.wrappers.TokenIdTracking`).
    - `history="append"` keeps the ids, so the model sees its own tokens. The builder takes the end of the turn and the
      text after it from a rendering with another text in that turn's place. It leaves out a token with which some
      templates replace the sampled end of a turn (gpt-oss: `<|end|>` for `<|return|>`). Only the last model turn and
      the items after it are read: changes of earlier items go unnoticed.

    Gemma 4's templates show a turn's text behind the tools' answers, though the model wrote it before its calls. There
    `"template"` starts a new segment, and `"append"` keeps the text where the model wrote it, once.

    A template may complete a turn that was cut off in its reasoning or in a call (`</think>`, the rest of a call's
    JSON). `"template"` keeps this completion, `"append"` leaves it out.

    Args:
        tokenizer: A `transformers` tokenizer that has a chat template.
        stop_token_ids: Tokens that end a model's turn.
        history: `"template"` or `"append"`.

    Raises:
        ValueError: If `history` is neither.
    """

    def __init__(self, tokenizer: Any, *, stop_token_ids: Collection[int], history: History = "template") -> None:
        if history not in get_args(History):
            raise ValueError(f"history is 'template' or 'append'; got {history!r}.")
        self.history = history
        self.stop_token_ids = frozenset(stop_token_ids)
        self._tokenizer = tokenizer
        self._form = message_form(tokenizer)
        self._bytes = TokenBytes(tokenizer)
        self._warned = False
        self._stop_texts = {token: self.decode([token]) for token in sorted(stop_token_ids)}
        stops = sorted(filter(None, self._stop_texts.values()), key=len, reverse=True)  # the longest matches first
        self._stop = re.compile("|".join(map(re.escape, stops)) or "(?!)")
        special = sorted({*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, special)) or "(?!)")
        self._added: dict[str, int] = dict(tokenizer.get_added_vocab())
        self._latest: OrderedDict[str, tuple[array[int], str]] = OrderedDict()
        self._cached_characters = 0
        self._most_characters: int | None = None

    def limit_to(self, context: int) -> None:
        """Leave out what cannot fit a context of this many tokens: a new prompt then has as many ids or more."""
        longest = max(map(len, self._tokenizer.get_vocab()), default=1)
        self._most_characters = 2 * context * longest

    def build(self, request: Request, *, conversation: str = "") -> list[int]:
        """Return the ids of a request's prompt in a new list. Not thread-safe.

        `conversation`, one name for all turns of a conversation, makes later turns cheaper: the builder keeps the text
        of the last prompt. The ids do not depend on it.

        Raises:
            EngineError: If the request cannot be shown or has a `tool_choice` that forces calls, or if
                `history="append"` cannot find the text after the last model turn.
            jinja2.TemplateError: If the template objects to the conversation.
        """
        chat = request_to_chat(request)
        choice = chat.get("tool_choice") or "auto"
        if choice not in ("auto", "none"):  # "none" leaves the tools out: `template_variables`
            raise EngineError(
                f"tool_choice must be 'auto' or 'none' for prompts of token ids, got {excerpt(choice, 60)}: use a chat "
                "server."
            )
        if not (self._warned or self._form.shows_calls or self.history == "append"):
            self._warn_of_lost_calls(chat["messages"])
        variables = template_variables(chat)
        text = render(chat["messages"], variables, self._tokenizer, self._form)
        items = request["input"]
        last = _last_sampled(items)
        if last is None:
            ids = self._encode(text[: self._most_characters])  # a text that cannot fit would take minutes
        else:
            prompt: list[int] = items[last]["prompt_token_ids"]
            sampled: list[int] = items[last]["generation_token_ids"]
            history = self._shown_text(request, last, text, variables, conversation)
            if text.startswith(history) and (self.history == "template" or self._stopped(items[last])):
                ids = prompt + sampled + self._encode(text[len(history) :], after=sampled)
            elif self.history == "append":
                rest = self._rest(request, last, variables)
                ids = prompt + sampled + self._encode(rest, after=sampled)
                text = history + rest
            else:
                ids = self._encode(text)
        if conversation:
            self._remember(conversation, ids, text)
        return ids

    def _warn_of_lost_calls(self, messages: list[dict[str, Any]]) -> None:
        if any("tool_calls" in message for message in messages):
            self._warned = True
            logger.warning(
                "The chat template of %s does not show the model its own calls: in later turns they are lost. "
                'With history="append" it sees what it wrote.',
                getattr(self._tokenizer, "name_or_path", "") or "this model",
            )

    def _shown_text(self, request: Request, last: int, text: str, variables: dict[str, Any], conversation: str) -> str:
        """The text of the last model turn's prompt and of what was sampled, as the template showed and would show it.

        What the tokenizer makes of a text may decode to another text (normalised, spaces around special tokens gone);
        so the text that was tokenised is what counts, if it can be found out.
        """
        turn = request["input"][last]
        prompt: list[int] = turn["prompt_token_ids"]
        sampled: list[int] = turn["generation_token_ids"]
        # In two pieces, because engines tell the text without the token that ended it.
        if self._stopped(turn):
            answer = self.decode(sampled[:-1]) + self._stop_texts[sampled[-1]]
        else:
            answer = self.decode(sampled)
        latest_ids, latest_text = self._latest.get(conversation, (None, ""))
        if latest_ids is not None and len(latest_ids) == len(prompt) and latest_ids.tolist() == prompt:
            return latest_text + answer
        decoded = self.decode(prompt)
        if text.startswith(decoded + answer) or self.history == "append":
            return decoded + answer
        before: Request = {**request, "input": request["input"][: _turn_start(request["input"], last)]}
        rendering = render(request_to_chat(before)["messages"], variables, self._tokenizer, self._form)
        same = rendering == decoded or self.decode(self._encode(rendering)) == self.decode(self._encode(decoded))
        return (rendering if same else decoded) + answer

    def _rest(self, request: Request, last: int, variables: dict[str, Any]) -> str:
        """What the template shows after the last model turn, whatever it makes of the turn itself.

        The turn is replaced by a text that occurs nowhere else; a turn that called a tool keeps its calls, with that
        text as the last one's argument, because templates close such turns in other ways and show results only after
        calls.
        """
        items: list[Item] = request["input"]
        before: Request = {**request, "input": items[: last + 1]}
        messages = request_to_chat(before)["messages"]
        after = request_to_chat({"input": items[last + 1 :]})["messages"]
        turn = messages.pop() if messages and messages[-1]["role"] == "assistant" else {}
        mark = "gymllmturn"
        while mark in str(messages) or mark in str(after) or mark in str(variables):
            mark += "x"
        stopped = self._stopped(items[last])
        for calls in _marked(turn.get("tool_calls") or [], mark):
            message = {"role": "assistant", "content": None, "tool_calls": calls}
            try:
                rest = self._after_mark([*messages, message, *after], mark, variables)
            except Exception:  # the template objects; to the turn as a text, which is tried last, it may not
                continue
            # The end of the call's JSON is still to be cut off, and only an end-of-turn token says where that is.
            if rest is not None and (stop := self._stop.search(rest)):
                return rest[stop.end() if stopped else stop.start() :]
        rest = self._after_mark([*messages, {"role": "assistant", "content": mark}, *after], mark, variables)
        if rest is None:
            raise EngineError("The chat template does not show the last model turn: use history='template'.")
        # A stop after other text is a later turn's: the template closes turns with something else.
        if stopped and (stop := self._stop.search(rest)) and not rest[: stop.start()].strip():
            return rest[stop.end() :]
        return self._without_end(rest, variables) if stopped else rest

    def _without_end(self, rest: str, variables: dict[str, Any]) -> str:
        """The rest without a special token that ends the turn in place of the one that was sampled.

        gpt-oss samples `<|return|>`, and its template shows `<|end|>` there in a later prompt. Such a token is followed
        by the one with which a message begins, as the start of the model's turn says.
        """
        user: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
        prompt = render(user, variables, self._tokenizer, self._form)
        message = render(user, {**variables, "add_generation_prompt": False}, self._tokenizer, self._form)
        begin = self._special.match(prompt.removeprefix(message))
        end = self._special.match(rest)
        if prompt.startswith(message) and begin and end and end[0] != begin[0]:
            following = self._special.match(rest, end.end())
            if following and following[0] == begin[0]:
                return rest[end.end() :]
        return rest

    def _after_mark(self, messages: list[dict[str, Any]], mark: str, variables: dict[str, Any]) -> str | None:
        before, separator, after = render(messages, variables, self._tokenizer, self._form).rpartition(mark)
        return after if separator and mark not in before else None

    def _stopped(self, turn: Item) -> bool:
        sampled = turn["generation_token_ids"]
        return bool(sampled) and sampled[-1] in self._stop_texts

    def _encode(self, text: str, after: list[int] | None = None) -> list[int]:
        """The ids of a text that begins a prompt or comes after these ids."""
        if after and (stop := self._stop_texts.get(after[-1])):
            # Some tokenizers treat what follows a special token in their own way: they drop whitespace there, or put
            # none of what they put at the beginning of a text.
            ids: list[int] = self._tokenizer.encode(stop + text, add_special_tokens=False)
            if ids[:1] == after[-1:]:
                return ids[1:]
        return cast("list[int]", self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: list[int]) -> str:
        """The text of ids, special tokens and all."""
        return cast(str, self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def turn_text(self, ids: list[int]) -> tuple[str, bool]:
        """The text of a turn without the token that ends turns, and whether the turn has one."""
        ended = bool(ids) and ids[-1] in self.stop_token_ids
        return self.decode(ids[:-1] if ended else ids), ended

    @functools.cached_property
    def call_format(self) -> CallFormat | None:
        """The format of the model's calls, as far as its template shows it; see `call_format`."""
        return call_format(self._tokenizer, self._form, list(filter(None, self._stop_texts.values())))

    @functools.cached_property
    def thinks(self) -> bool:
        """Whether the model may think in `<think>` tags: the tokenizer or the template has them."""
        tags = {"<think>", "</think>"}
        return tags <= set(self._added) or all(tag in str(self._tokenizer.chat_template) for tag in tags)

    def turn_start(self, request: Request) -> str:
        """The end of a request's prompt: what the template writes at the beginning of the model's turn."""
        variables = template_variables(request_to_chat({**request, "input": []}))
        user: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
        prompt = render(user, variables, self._tokenizer, self._form)
        message = render(user, {**variables, "add_generation_prompt": False}, self._tokenizer, self._form)
        return prompt.removeprefix(message)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without the special tokens that a tokenizer puts around texts."""
        return self._encode(text)

    @property
    def special_token_ids(self) -> frozenset[int]:
        """The tokens that no text is made of: the tokenizer's special and added ones."""
        return frozenset({*self._added.values(), *self._tokenizer.all_special_ids})

    @property
    def named_special_ids(self) -> frozenset[int]:
        """The special tokens that a tokenizer has a role for, such as the first of a text, or the one that pads."""
        return frozenset(self._tokenizer.all_special_ids)

    def pieces(self, text: str) -> list[int | str]:
        """Split a text at the tokenizer's added tokens, which are returned as ids."""
        pieces: list[int | str] = []
        position = 0
        for match in self._special.finditer(text):
            if match[0] in self._added:
                pieces += [text[position : match.start()], self._added[match[0]]]
                position = match.end()
        return [piece for piece in (*pieces, text[position:]) if piece != ""]

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token; see `TokenBytes`."""
        return self._bytes.of(token)

    def _remember(self, conversation: str, ids: list[int], text: str) -> None:
        _, old = self._latest.pop(conversation, (None, ""))
        # As an array, which takes a ninth of a list's memory: finished conversations stay here for a while.
        self._latest[conversation] = (array("I", ids), text)
        self._cached_characters += len(text) - len(old)
        while self._cached_characters > CACHED_CHARACTERS:
            _, (_, old) = self._latest.popitem(last=False)
            self._cached_characters -= len(old)


def _marked(calls: list[dict[str, Any]], mark: str) -> Iterator[list[dict[str, Any]]]:
    """A turn's calls with a mark as the argument of the last one; then of the first, if a template shows no other."""
    for place in sorted({len(calls) - 1, 0}, reverse=True) if calls else ():
        marked = {**calls[place], "function": {**calls[place]["function"], "arguments": f'{{"text": "{mark}"}}'}}
        yield [*calls[:place], marked, *calls[place + 1 :]]


def _last_sampled(items: list[Item] | str) -> int | None:
    """The index of the last item that carries a model turn's tokens."""
    if isinstance(items, str):
        return None
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if item.get("prompt_token_ids") is not None and item.get("generation_token_ids") is not None:
            return index
    return None


def _turn_start(items: list[Item], last: int) -> int:
    """Where the model turn begins whose last item this is."""
    for start in range(last, 0, -1):
        before = items[start - 1]
        is_models = before.get("type") in _MODEL_ITEMS or before.get("role") == "assistant"
        if not is_models or before.get("generation_token_ids") is not None:
            return start
    return 0
