"""The contracts of gym_llm: observations, actions and records.

The hot path passes them as plain dicts, typed by `TypedDict`. `protocols/responses/` has the pydantic models of the
same shapes for data from outside. Field names are those of the OpenAI Responses API
(https://platform.openai.com/docs/api-reference/responses); the three token fields are NeMo Gym's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NotRequired, TypeAlias, TypedDict

from typing_extensions import TypeVar  # with a default: Python 3.13

Item: TypeAlias = dict[str, Any]
"""One Responses item: a message, reasoning, function_call, function_call_output, or a type we do not know (kept as is).

The last output item of a model turn may carry `prompt_token_ids` (list[int]: all ids the model was given),
`generation_token_ids` (list[int]: the ids it sampled) and `generation_log_probs` (list[float]: natural log of the
probability of each sampled id, same length); either all three are there or none. See also `CONSTRAINED`,
`WEIGHT_VERSIONS` and `ROUTED_EXPERTS`.
"""

CONSTRAINED = "generation_constrained"
"""A fourth field, true where the ids were sampled under a constraint: a `tool_choice` that forces calls, a
`text.format`. The log probabilities are then those among the tokens that the constraint allowed, and not those that a
trainer computes with the model alone."""

TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
"""The names of the three, in the order of their making."""

WEIGHT_VERSIONS = "generation_weight_versions"
"""A fifth field: the weights that sampled the ids, as runs `[version, number of ids]` in their order. Version 0 has the
weights that the engine began with, and `update_weights` counts on. Without the field all ids are of version 0."""

ROUTED_EXPERTS = "routed_experts"
"""A sixth field, of mixtures of experts: the experts that each router chose for each id, of prompt and answer, for
trainers that replay the routing. It is a text that nothing here reads: base64 of a NumPy file with indices of shape
(ids, layers, experts of a token), as vLLM's servers return it with `--enable-return-routed-experts`. The last sampled
id has none, since the model has not read it."""

TURN_FIELDS = (*TOKEN_FIELDS, CONSTRAINED, WEIGHT_VERSIONS, ROUTED_EXPERTS)
"""All fields of a turn's tokens: parsers move them to the turn's last item, and clients get them on request."""

ANSWER_PHASE = "final_answer"
"""The `phase` of a message, as the Responses API has it: an engine says so of an answer that was cut off."""

Row: TypeAlias = dict[str, Any]
"""One line of a task file: `responses_create_params` (a `Request`) and the verifier's own fields."""

Phase: TypeAlias = Literal["engine", "setup", "tool", "respond", "verify", "teardown"]
"""What an episode waits for, or where it failed: the engine's answer, or one of the environment's hooks."""

OutcomeName: TypeAlias = Literal["scored", "truncated", "masked"]
"""How an episode ended: with a reward, cut off by a limit (with a reward, too), by a fault: nobody's zero."""

FailureKind: TypeAlias = Literal[
    "transport_unreachable",
    "transport_peer_drop",
    "transport_timeout",
    "transport_local_resource",
    "agent_run_error",
    "agent_request_failed",
    "agent_timeout",
    "agent_command_not_allowed",
    "judge_failed",
    "judge_unparseable",
    "verifier_error",
    "provider_unavailable",
    "provider_quota_exhausted",
    "provider_oom_killed",
    "session_lost",
    "session_expired",
    "session_release_failed",
    "cancelled",
    "kill_shaped",
    "shutdown",
    "persistence_failed",
    "cohort_incomplete",
]
"""Why an episode is masked, in NeMo Gym 0.7's words."""

ReverifyMode: TypeAlias = Literal["stateless", "unsupported", "unknown"]
"""Whether a recorded episode can be scored from its items and what `setup` makes, in NeMo Gym's words: always, never,
or, where the class declares nothing, only if no tool and no `user_turn` took part in it."""

HubName: TypeAlias = Literal["huggingface", "gitlab"]
"""Where datasets are published."""


class Request(TypedDict, total=False):
    """An observation: the body of the next `POST /v1/responses`, without `model`."""

    input: list[Item]
    tools: list[dict[str, Any]]
    instructions: str
    tool_choice: str | dict[str, Any]
    parallel_tool_calls: bool
    temperature: float
    top_p: float
    max_output_tokens: int
    reasoning: dict[str, Any]
    text: dict[str, Any]
    metadata: dict[str, str]
    chat_template_kwargs: dict[str, Any]
    """Not OpenAI's: variables for the chat template, e.g. `{"enable_thinking": False}`, as vLLM's server takes them."""


class Usage(TypedDict):
    """Tokens of one response (or of a whole episode, summed)."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: NotRequired[dict[str, int]]
    """`cached_tokens`: input tokens that the server had in its prefix cache; absent where it does not say."""


_COUNTS = ("input_tokens", "output_tokens", "total_tokens")


def sum_usage(total: Usage | None, usage: dict[str, Any]) -> Usage:
    """Add a response's token counts to a sum, in place, and return it; invalid counts are left out.

    >>> sum_usage({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}, {"input_tokens": 5, "output_tokens": "7"})
    {'input_tokens': 6, 'output_tokens': 1, 'total_tokens': 2}
    """
    total = total or {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    for name in _COUNTS:
        if type(count := usage.get(name)) is int and 0 <= count < 2**48:
            total[name] += count  # type: ignore[literal-required]
    if cached := cached_tokens_of(usage):
        total["input_tokens_details"] = {"cached_tokens": cached_tokens_of(total) + cached}
    return total


def cached_tokens_of(usage: Mapping[str, Any]) -> int:
    """Return how many input tokens of a response were cached, as its server says; 0 if it does not say.

    >>> cached_tokens_of({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 8}}), cached_tokens_of({})
    (8, 0)
    """
    details = usage.get("input_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return cached if type(cached) is int and 0 <= cached < 2**48 else 0


class ResponseDict(TypedDict):
    """A Responses answer as a plain dict: what an engine returns and `env.step` takes."""

    id: str
    object: str
    """Always `"response"`."""
    created_at: float
    """Unix time in seconds."""
    model: str
    status: str
    """`"completed"` or `"incomplete"`; anything else is for servers that run responses in the background."""
    output: list[Item]
    incomplete_details: NotRequired[dict[str, str] | None]
    """`{"reason": "max_output_tokens"}` and the like, when `status` is `"incomplete"`."""
    usage: NotRequired[Usage | None]


@dataclass(slots=True)
class Verdict:
    """A reward with details, for `verify` to return instead of a bare number.

    Args:
        reward: The episode's reward.
        info: Details for `info` of the last step, e.g. `{"extracted_answer": "B"}`; JSON values, deterministic. The
            keys `trajectory`, `reward`, `reward_components` and `agent` are reserved.
        reward_components: Named parts of the reward, where there are several.
    """

    reward: float
    info: dict[str, Any] = field(default_factory=dict)
    reward_components: dict[str, float] | None = None


def known(**numbers: float | None) -> dict[str, float]:
    """Return the details that are numbers: Gymnasium cannot batch a detail that is sometimes None.

    >>> known(x=1, y=None)
    {'x': 1}
    """
    return {name: number for name, number in numbers.items() if number is not None}


StateT = TypeVar("StateT", default=Any)
"""The type of an episode's state: what `setup` returns."""


@dataclass(slots=True)
class Episode(Generic[StateT]):
    """An episode as the hooks see it. Its items are shared with the observation: do not change them.

    Attributes:
        task_index: Index of the task in its source, -1 for a row given in `options`.
        row: The task's row, whole.
        request: The first request: the row's `responses_create_params` with the tools filled in.
        state: What `setup` returned.
        items: Everything said since, in order: model items, `function_call_output`s, user messages.
        turn: Model turns so far.
        turn_start: Where in `items` the last model turn begins.
        tool_errors: Tool calls so far that did not succeed.
        usage: Token counts summed over the turns that reported them, else None.
        last_response: The last action as a response's dict (`id`, `status`, `output`, …); empty for a bare list.
        reasoning_turns: Turns of reasoning alone since the model last said something else.
        step_reward: This turn's reward, 0.0 as it begins. `user_turn` and tools (`self.episode`) may add to it; a hook
            in a process of its own cannot.
    """

    task_index: int
    row: Row
    request: Request
    state: StateT = None  # type: ignore[assignment]
    items: list[Item] = field(default_factory=list)
    turn: int = 0
    turn_start: int = 0
    tool_errors: int = 0
    usage: Usage | None = None
    last_response: dict[str, Any] = field(default_factory=dict)
    reasoning_turns: int = 0
    step_reward: float = 0.0

    @property
    def answer(self) -> str:
        """The last model turn's message text, all parts joined; "" if it said nothing."""
        return message_text(self.items[self.turn_start :])

    @property
    def text(self) -> str:
        """All that the model said in messages, in every turn, joined with nothing (OpenAI's `output_text`)."""
        return message_text(self.items)

    @property
    def messages_text(self) -> str:
        r"""All that the model said in messages, every part in a line of its own (joined with "\n"), stripped."""
        return "\n".join(text for item in self.items for text in _said(item)).strip()

    @property
    def last_message(self) -> str:
        r"""The text of the model's last message, parts joined with "\n", stripped; "" without a message."""
        for item in reversed(self.items):
            if is_said(item):
                return "\n".join(_said(item)).strip()
        return ""

    @property
    def last_item_text(self) -> str:
        """The first part of the very last item, if that has content; else "", e.g. after a call or reasoning."""
        content = self.items[-1].get("content") if self.items else None
        if isinstance(content, str):
            return content
        part = content[0] if isinstance(content, list) and content else None
        text = part.get("text") if isinstance(part, dict) else None
        return text if isinstance(text, str) else ""

    @property
    def reasoning(self) -> str:
        r"""The model's reasoning in all turns: the parts of its reasoning items, joined with "\n"."""
        texts = []
        for item in self.items:
            if item.get("type") == "reasoning":
                texts += [*content_texts(item.get("summary")), *content_texts(item.get("content"))]
        return "\n".join(texts)

    @property
    def question(self) -> str:
        r"""The last user message of the first request, its text parts joined with "\n", stripped; "" without one."""
        for item in reversed(self.request["input"]):
            if item.get("role") == "user" and item.get("type", "message") == "message":
                return "\n".join(content_texts(item.get("content"))).strip()
        return ""

    def begin_turn(self, items: list[Item], response: dict[str, Any]) -> None:
        """Begin a model turn with what the model said: its output items, and the response that they came in."""
        self.turn += 1
        self.turn_start = len(self.items)
        self.items.extend(items)
        self.last_response = response
        if usage := response.get("usage"):
            self.add_usage(usage)

    def add_usage(self, usage: dict[str, Any]) -> None:
        """Add a response's token counts to the sums; invalid counts are left out."""
        self.usage = sum_usage(self.usage, usage)

    def function_calls(self, name: str | None = None) -> Iterator[Item]:
        """The episode's `function_call` items in order, all or those of one function."""
        return (
            item
            for item in self.items
            if item.get("type") == "function_call" and (name is None or item.get("name") == name)
        )


def message_text(items: list[Item]) -> str:
    """The text of the assistant messages among `items`, joined without a separator.

    >>> message_text([{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]}])
    '4'
    """
    texts = [text for item in items if is_said(item) for text in content_texts(item.get("content"))]
    return texts[0] if len(texts) == 1 else "".join(texts)


def is_said(item: Item) -> bool:
    """Whether an item is a message of the model."""
    return item.get("type", "message") == "message" and item.get("role") == "assistant"


def _said(item: Item) -> list[str]:
    return content_texts(item.get("content")) if is_said(item) else []


def content_texts(content: Any) -> list[str]:
    """Return the texts of an item's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else ()
    return [text for part in parts if isinstance(part, dict) and isinstance(text := part.get("text"), str)]


class RolloutId(TypedDict):
    """The id of an episode in its run."""

    task_index: int
    repeat_index: int


class TurnTiming(TypedDict):
    """The duration of a turn in seconds."""

    engine: float
    """Waiting for the model."""
    env: float
    """In `env.step`: tools, the user's next message, the verifier."""


class MadeByKey(TypedDict, total=False):
    """The makers of a record, for comparing records; hashes have 16 characters. See `gym_llm.rollouts.made_by`."""

    gym_llm: str
    """The version of this package."""
    environment: str
    """The version of the package that has the verifier; absent for a file that is not installed."""
    verifier: str
    """Hash of the verifier's source code and of the local modules that it imports."""
    arguments: str
    """Hash of the environment's arguments and of the files that they name; absent without."""
    engine: str
    """Hash of the engine's spec without its address, its options, and the files that they name."""
    model: str
    """The model's name as the engine reports it; absent where a spec was given to `rollout` or `collect`."""
    sampling: str
    """Hash of the request fields that the run sets; absent without."""
    wrappers: str
    """Hash of the wrappers, or the parsers; absent for the usual ones."""
    agent: str
    """Hash of the agent's name and code; absent without."""
    budgets: str
    """Hash of the budgets of an episode; absent without."""
    compaction: str
    """Hash of how histories are shortened; absent without."""
    seed: int
    """The run's seed."""


class SeatRecord(TypedDict, total=False):
    """A player of an episode that has several. The record's own seat has no request, response and trajectory here."""

    player: str
    """`"policy"`, `"random"`, or the spec of the engine that played it."""
    trained: bool
    """Whether trainers get a row of it."""
    reward: float
    """What it was paid; where the episode is masked, nothing counts."""
    turns: int
    """Its turns."""
    tool_errors: int
    """Tool calls of it that did not succeed."""
    info: dict[str, Any]
    """Its details, and how many `illegal_moves` it made."""
    turn_rewards: list[float]
    """What each of its turns was paid, where a turn before its last was."""
    responses_create_params: Request
    response: ResponseDict
    """Its items: what it was shown and what it said, without token ids."""
    trajectory: list[dict[str, Any]] | None
    """Its tokens, as in `Rollout`."""


class ForkedFrom(TypedDict):
    """The origin of an episode that begins with the turns of another one; see `gym_llm.fork`."""

    rollout_id: RolloutId
    """The other episode's."""
    turn: int
    """The number of its turns that both have."""
    number: int
    """The number among the forks of that turn, from 0."""
    env_seed: int
    """The seed that the environments of both were reset with."""


class Rollout(TypedDict, total=False):
    """A finished episode: a line of a rollout file. The task's own fields are at the top level, too."""

    rollout_id: RolloutId
    env_id: str
    dataset: str
    """Where a configuration was played: `section/dataset`, or the section where it names no dataset."""
    responses_create_params: Request
    response: ResponseDict
    """All items of the episode in order (tool outputs and user messages too), usage summed, the last turn's status."""
    outcome: OutcomeName
    reward: float | None
    """Finite; None where the outcome is `masked`, and only there."""
    terminated: bool
    truncated: bool
    failure_kind: FailureKind | None
    """Why the episode is masked, as one of a few words; else None."""
    error: str | None
    """Why the episode is masked, as a sentence; else None."""
    error_phase: Phase | None
    """Where the error arose; None without one, or if it was in none of these (there is no such task, a wrapper, …)."""
    traceback: str | None
    """Where in the code, if the error was not an engine's own; else None."""
    info: dict[str, Any]
    """The last step's info. Where an agent has played, `agent`: the number of its `model_calls`, the number of
    `branches` that they make, and `calls`. That has `[branch, start, end]` for each call whose tokens are in the
    trajectory, in the order of the requests: it sampled the ids from `start` to `end` of that segment."""
    trajectory: list[dict[str, Any]] | None
    """One entry per segment: `input_ids`, `loss_mask`, `logprobs`; None where the engine reports no token ids.
    With `turn_rewards` also `rewards`, and where a turn was constrained also `constrained`; see
    `gym_llm.wrappers.TokenIdTracking`."""
    turn_rewards: NotRequired[list[float]]
    """What `env.step` returned for each of the model's turns: their sum is `reward`. There where a turn before the last
    had one other than 0."""
    attempts: NotRequired[int]
    """How often the episode was played for this record, where it was more than once; see `RolloutSettings.retries`."""
    task_fields: NotRequired[dict[str, Any]]
    """The task's fields of which the names are the record's own, e.g. a row's `dataset` or `reward`; absent without."""
    task_source: NotRequired[dict[str, Any]]
    """The origin of the task: `benchmark`, `revision`, `digest` and `task_id`, or `tasks` for a verifier's examples."""
    task_key: NotRequired[str]
    """The row's own id (`id`, `task_id`, `uuid`, …), or the start of `task_sha256`; see
    `gym_llm.records.task_identity`. Absent, like the hash, where the episode never began, and in earlier records."""
    task_sha256: NotRequired[str]
    """The SHA-256 of the task's row as it was played."""
    made_by: NotRequired[MadeByKey]
    """What made the record: versions, the seed, and hashes of the verifier, its arguments, the engine and the rest."""
    seats: NotRequired[dict[str, SeatRecord]]
    """The players, by seat, where the episode has several; see `gym_llm.records.seats`."""
    forked_from: NotRequired[ForkedFrom]
    """The episode that this one continues, if it is a fork."""
    timing: dict[str, float]
    """Seconds: `total`, of it waiting for the `engine`."""
    turn_timing: NotRequired[list[TurnTiming]]
    """The same of each of the model's turns, in order; absent in records of before this was written down."""
    schema_version: int
    """Of the record's own fields; see `gym_llm.records.record.SCHEMA_VERSION`."""
