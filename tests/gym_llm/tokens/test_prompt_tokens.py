import pytest
from token_conversations import CONVERSATIONS, SHAPES, of_all_conversations, play_all, tokenizer_for

from gym_llm.engines import make_engine
from gym_llm.errors import EngineError
from gym_llm.tokens import prompt_tokens
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.tokens.template import chat_prompt

HISTORIES = ("template", "append")
EVERY = pytest.mark.parametrize(("template", "history"), [(name, kind) for name in SHAPES for kind in HISTORIES])


def user(text):
    return {"role": "user", "content": text}


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def turn(tokenizer, prompt, text, *items, stop="<|im_end|>", sampled=None):
    """The items of a model turn that said a text, the turn's tokens on the last."""
    if sampled is None:
        sampled = encode(tokenizer, text + (stop or ""))
    items = items or ({"type": "message", "role": "assistant", "content": text},)
    tokens = {
        "prompt_token_ids": prompt,
        "generation_token_ids": sampled,
        "generation_log_probs": [-1.0] * len(sampled),
    }
    return [*items[:-1], {**items[-1], **tokens}]


def engine(history):
    return make_engine("pocket", history=history)


def prompts_for(tokenizer, history="template"):
    return PromptTokens(tokenizer, stop_token_ids=[tokenizer.eos_token_id], history=history)


# Many conversations for each template -------------------------------------------------------------------------


@of_all_conversations
@EVERY
def test_prompts_are_what_was_recorded_and_exactly_the_templates_suffix(template, history):
    counts, wrong = play_all(template, history)
    kinds = ("first prompt", "prefix", "suffix", "template's suffix", "new prompt")
    assert {kind: counts[f"wrong {kind}"] for kind in kinds} == dict.fromkeys(kinds, 0), wrong
    assert counts["turns"] > 2 * CONVERSATIONS and counts["cut turns"] > CONVERSATIONS / 5
    assert bool(counts["rewritten prompts"]) == (history == "template")


@of_all_conversations
@EVERY
def test_prompts_decode_to_what_the_template_would_have_shown(template, history):
    counts, wrong = play_all(template, history)
    assert counts["wrong text"] == 0, wrong


@of_all_conversations
@pytest.mark.parametrize("template", [name for name in SHAPES if name != "strips_thinking"])
def test_tokenising_the_text_again_would_have_given_other_ids(template):
    counts, _ = play_all(template, "template")
    assert counts["prompts that go on"] > CONVERSATIONS / 5
    assert counts["prompts that text would have changed"] > CONVERSATIONS / 20


# Cases --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("history", HISTORIES)
def test_the_newline_after_the_end_of_a_turn_is_not_lost(history):
    tokenizer = tokenizer_for("pocket")
    prompts = prompts_for(tokenizer, history)
    first = prompts.build({"input": "Hi"})
    assert tokenizer.decode(first) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    said = turn(tokenizer, first, "Hello.")
    second = prompts.build({"input": [user("Hi"), *said, user("Bye")]})
    before = first + said[0]["generation_token_ids"]
    assert second[: len(before)] == before
    after = "\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
    assert second[len(before) :] == encode(tokenizer, after)


@pytest.mark.parametrize("history", HISTORIES)
def test_a_turn_that_was_cut_is_closed(history):
    tokenizer = tokenizer_for("pocket")
    prompts = prompts_for(tokenizer, history)
    first = prompts.build({"input": "Hi"})
    said = turn(tokenizer, first, "Hello th", stop=None)
    second = prompts.build({"input": [user("Hi"), *said, user("Go on.")]})
    before = first + said[0]["generation_token_ids"]
    assert second[: len(before)] == before
    assert tokenizer.decode(second[len(before) :]).startswith("<|im_end|>\n<|im_start|>user\nGo on.")


def test_dropped_thinking_begins_a_new_segment_or_stays():
    tokenizer = tokenizer_for("pocket")
    first = prompts_for(tokenizer).build({"input": "Hi"})
    text = "<think>\nA greeting.\n</think>\n\nHello."
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "\nA greeting.\n"}]}
    said = turn(tokenizer, first, text, reasoning, {"type": "message", "role": "assistant", "content": "\n\nHello."})
    request = {"input": [user("Hi"), *said, user("Bye")]}
    anew = prompts_for(tokenizer).build(request)
    assert tokenizer.decode(anew) == chat_prompt(request, tokenizer)
    assert "A greeting." not in tokenizer.decode(anew)
    appended = prompts_for(tokenizer, "append").build(request)
    before = first + said[-1]["generation_token_ids"]
    assert appended[: len(before)] == before
    assert appended[len(before) :] == encode(tokenizer, "\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n")


def test_a_tool_result_is_appended_to_a_call_in_any_style():
    tokenizer = tokenizer_for("pocket")
    prompts = prompts_for(tokenizer, "append")
    first = prompts.build({"input": "Look."})
    text = '<tool_call>{"arguments":{"place":"here"},"name":"look"}</tool_call>'
    call = {"type": "function_call", "name": "look", "arguments": '{"place":"here"}', "call_id": "call_1"}
    said = turn(tokenizer, first, text, call)
    result = {"type": "function_call_output", "call_id": "call_1", "output": "A wall."}
    second = prompts.build({"input": [user("Look."), *said, result]})
    before = first + said[0]["generation_token_ids"]
    assert second[: len(before)] == before
    assert tokenizer.decode(second[len(before) :]) == (
        "\n<|im_start|>user\n<tool_response>\nA wall.\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_turn_without_tokens_after_one_with_tokens_is_part_of_what_is_new():
    tokenizer = tokenizer_for("pocket")
    for history in HISTORIES:
        prompts = prompts_for(tokenizer, history)
        first = prompts.build({"input": "Hi"})
        said = turn(tokenizer, first, "Hello.")
        other = {"role": "assistant", "content": "Farewell."}
        request = {"input": [user("Hi"), *said, user("Bye"), other, user("Still there?")]}
        second = prompts.build(request)
        before = first + said[0]["generation_token_ids"]
        assert second[: len(before)] == before
        assert tokenizer.decode(second) == chat_prompt(request, tokenizer)


def test_a_turn_that_ended_with_another_stop_token_stays_as_it_was_or_begins_anew():
    tokenizer = tokenizer_for("pocket")
    stops = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    for history in HISTORIES:
        prompts = PromptTokens(tokenizer, stop_token_ids=stops, history=history)
        first = prompts.build({"input": "Hi"})
        said = turn(tokenizer, first, "Hello.", stop="<|endoftext|>")
        request = {"input": [user("Hi"), *said, user("Bye")]}
        text = tokenizer.decode(prompts.build(request))
        shown = chat_prompt(request, tokenizer)
        assert text == (shown.replace("Hello.<|im_end|>", "Hello.<|endoftext|>") if history == "append" else shown)


def test_a_turn_with_only_some_of_its_tokens_is_taken_as_text():
    tokenizer = tokenizer_for("pocket")
    (said,) = turn(tokenizer, [1, 2], "Hello.")
    said.pop("prompt_token_ids")
    request = {"input": [user("Hi"), said, user("Bye")]}
    for history in HISTORIES:
        assert prompts_for(tokenizer, history).build(request) == encode(tokenizer, chat_prompt(request, tokenizer))


def test_changed_instructions_begin_a_new_segment():
    tokenizer = tokenizer_for("pocket")
    prompts = prompts_for(tokenizer)
    first = prompts.build({"input": "Hi", "instructions": "Be brief."}, conversation="a")
    items = [user("Hi"), *turn(tokenizer, first, "Hello."), user("Bye")]
    request = {"input": items, "instructions": "Be long."}
    assert prompts.build(request, conversation="a") == encode(tokenizer, chat_prompt(request, tokenizer))


@pytest.mark.parametrize("conversation", ["", "a"])
def test_a_tokenizer_that_normalises_text_is_no_reason_for_a_new_segment(conversation):
    from tokenizers import normalizers

    tokenizer = tokenizer_for.__wrapped__("pocket")
    tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
    prompts = prompts_for(tokenizer)
    first = prompts.build({"input": "cafe\u0301"}, conversation=conversation)
    assert "caf\u00e9" in tokenizer.decode(first)
    said = turn(tokenizer, first, "Hello.")
    second = prompts.build({"input": [user("cafe\u0301"), *said, user("Bye")]}, conversation=conversation)
    before = first + said[0]["generation_token_ids"]
    assert second[: len(before)] == before
    assert tokenizer.decode(second[len(before) :]).startswith("\n<|im_start|>user\nBye")


@pytest.mark.parametrize("conversation", ["", "a"])
def test_a_special_token_that_takes_the_whitespace_after_it_takes_it_here_too(conversation):
    """Phi-3's `<|end|>` does: its chat template writes line breaks that no model ever saw."""
    from tokenizers import AddedToken

    tokenizer = tokenizer_for.__wrapped__("pocket")
    end = AddedToken("<|end|>", special=True, normalized=False, rstrip=True)
    tokenizer.add_tokens([end], special_tokens=True)
    tokenizer.chat_template = tokenizer.chat_template.replace("<|im_end|>", "<|end|>")
    stop = tokenizer.convert_tokens_to_ids("<|end|>")
    for history in HISTORIES:
        prompts = PromptTokens(tokenizer, stop_token_ids=[stop], history=history)
        first = prompts.build({"input": "Hi"}, conversation=conversation)
        said = turn(tokenizer, first, "Hello.", sampled=[*encode(tokenizer, "Hello."), stop])
        request = {"input": [user("Hi"), *said, user("Bye")]}
        assert prompts.build(request, conversation=conversation) == encode(tokenizer, chat_prompt(request, tokenizer))


def test_a_template_that_hides_model_turns_cannot_be_appended_to():
    tokenizer = tokenizer_for.__wrapped__("pocket")
    tokenizer.chat_template = "{% for m in messages if m.role == 'user' %}{{ m.content }}\n{% endfor %}"
    request = {"input": [user("Hi"), *turn(tokenizer, [1, 2], "Hello."), user("Bye")]}
    assert tokenizer.decode(prompts_for(tokenizer).build(request)) == "Hi\nBye\n"
    with pytest.raises(EngineError, match="use history='template'"):
        prompts_for(tokenizer, "append").build(request)


def test_images_are_refused():
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}
    with pytest.raises(EngineError, match="text only"):
        prompts_for(tokenizer_for("pocket")).build({"input": [image]})


def test_tools_are_shown_unless_none_may_be_called():
    tokenizer = tokenizer_for("pocket")
    tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
    with_tools, without = {"input": "Hi", "tools": [tool]}, {"input": "Hi"}
    shown = [
        tokenizer.decode(prompts_for(tokenizer).build({**with_tools, "tool_choice": choice}))
        for choice in ("auto", None, "none")
    ]
    assert "get_weather" in shown[0] and shown[0] == shown[1] == chat_prompt(with_tools, tokenizer)
    assert shown[2] == chat_prompt(without, tokenizer)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}, {"type": "allowed_tools"}])
def test_a_prompt_cannot_force_calls(choice):
    prompts = prompts_for(tokenizer_for("pocket"))
    tools = [{"type": "function", "name": "get_weather", "parameters": {}}]
    with pytest.raises(EngineError, match="tool_choice must be 'auto' or 'none'"):
        prompts.build({"input": "Hi", "tools": tools, "tool_choice": choice})
    assert prompts.build({"input": "Hi", "tool_choice": choice}) == prompts.build({"input": "Hi"})


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("arguments", ['{"place": ', "[1]", ""])
def test_a_template_that_goes_through_arguments_is_shown_broken_ones_as_an_argument(history, arguments):
    tokenizer = tokenizer_for.__wrapped__("pocket")
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% for call in m.tool_calls or [] %}{% for key, value in call.function.arguments | items %}"
        "[{{ key }}={{ value }}]{% endfor %}{% endfor %}<|im_end|>\n{% endfor %}{{ '<|im_start|>assistant\n' }}"
    )
    prompts = prompts_for(tokenizer, history)
    first = prompts.build({"input": "Look."})
    call = {"type": "function_call", "name": "look", "arguments": arguments, "call_id": "call_1"}
    said = turn(tokenizer, first, f"look {arguments}", call)
    result = {"type": "function_call_output", "call_id": "call_1", "output": "Not JSON."}
    shown = tokenizer.decode(prompts.build({"input": [user("Look."), *said, result]}))
    assert (f"look {arguments}<|im_end|>" if history == "append" else f"[arguments={arguments}]<|im_end|>") in shown
    assert shown.endswith("<|im_end|>\n<|im_start|>tool\nNot JSON.<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize("history", HISTORIES)
def test_a_text_that_the_template_moves_behind_the_tools_answer_is_shown_once(history):
    # Gemma 4's order: the calls, the tools' answers, and the text that the model wrote before them.
    tokenizer = tokenizer_for.__wrapped__("pocket")
    tokenizer.chat_template = (
        "{% for m in messages if m.role != 'tool' %}<|im_start|>{{ m.role }}\n"
        "{% for call in m.tool_calls or [] %}[{{ call.function.arguments | tojson }}]<|im_end|>{% endfor %}"
        "{% if m.tool_calls %}{% for t in messages if t.role == 'tool' %}({{ t.content }}){% endfor %}{% endif %}"
        "{{ m.content or '' }}{% if not m.tool_calls %}<|im_end|>\n{% endif %}{% endfor %}"
        "{% if messages[-1].role == 'user' %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    prompts = prompts_for(tokenizer, history)
    first = prompts.build({"input": "Look."})
    text = {"type": "message", "role": "assistant", "content": "Let me look."}
    call = {"type": "function_call", "name": "look", "arguments": '{"at": "it"}', "call_id": "call_1"}
    said = turn(tokenizer, first, 'Let me look.[{"at": "it"}]', text, call)
    result = {"type": "function_call_output", "call_id": "call_1", "output": "Found."}
    shown = prompts.build({"input": [user("Look."), *said, result]})
    before = first + said[-1]["generation_token_ids"]
    assert (shown[: len(before)] == before) == (history == "append")
    after = '[{"at": "it"}]<|im_end|>(Found.)'
    expected = f"Let me look.{after}" if history == "append" else f"{after}Let me look."
    assert tokenizer.decode(shown).endswith(expected)
    assert tokenizer.decode(shown).count("Let me look.") == 1


def test_an_objection_of_the_template_is_the_callers_to_read():
    from jinja2 import TemplateError

    call = {"type": "function_call", "name": "look", "arguments": "{", "call_id": "call_1"}
    tokenizer = tokenizer_for("tool_results_as_user")
    with pytest.raises(TemplateError, match="comes after a tool call"):
        prompts_for(tokenizer).build(
            {"input": [call, user("Hi"), {"type": "function_call_output", "call_id": "call_1", "output": "4"}]}
        )


@pytest.mark.parametrize("make", [lambda kind: prompts_for(tokenizer_for("pocket"), kind), lambda kind: engine(kind)])
def test_an_unknown_history_is_an_error(make):
    with pytest.raises(ValueError, match="'template' or 'append'; got 'keep'"):
        make("keep")


NO_THINKING = "<|im_start|>assistant\n<think>\n\n</think>\n\n"


@pytest.mark.parametrize(
    ("fields", "thinks"),
    [
        ({}, True),
        ({"chat_template_kwargs": None}, True),
        ({"chat_template_kwargs": {"enable_thinking": True}}, True),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"reasoning": {"effort": "none"}}, False),
        ({"reasoning": {"effort": "low"}}, True),
        ({"reasoning": {"effort": "low"}, "chat_template_kwargs": {"enable_thinking": False}}, False),
    ],
)
def test_effort_and_chat_template_kwargs_are_the_templates_variables(fields, thinks):
    tokenizer = tokenizer_for("pocket")
    request = {"input": "Hi", **fields}
    shown = tokenizer.decode(prompts_for(tokenizer).build(request))
    assert shown.endswith("<|im_start|>assistant\n" if thinks else NO_THINKING)
    assert shown == chat_prompt(request, tokenizer)


@pytest.mark.parametrize("history", HISTORIES)
def test_variables_hold_for_all_that_is_shown_for_a_request(history):
    tokenizer = tokenizer_for.__wrapped__("pocket")
    tokenizer.chat_template = (
        "<|im_start|>system\neffort {{ reasoning_effort }}, {{ style }}<|im_end|>\n"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{{ '<|im_start|>assistant\n' }}{{ style }}: "
    )
    variables = {"reasoning": {"effort": "high"}, "chat_template_kwargs": {"style": "short"}}
    prompts = prompts_for(tokenizer, history)
    first = prompts.build({"input": "Hi", **variables})
    assert tokenizer.decode(first).startswith("<|im_start|>system\neffort high, short<|im_end|>")
    said = turn(tokenizer, first, "Hello.")
    request = {"input": [user("Hi"), *said, user("Bye")], **variables}
    second = tokenizer.decode(prompts.build(request))
    if history == "append":
        after = "\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nshort: "
        assert second == tokenizer.decode(first) + "Hello.<|im_end|>" + after
    else:  # "short: " is not shown again
        assert second == chat_prompt(request, tokenizer)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["enable_thinking"], r"is an object such as \{\"enable_thinking\": false\}, got \['enable"),
        ({"chat_template": "{{ messages }}"}, "chat_template in chat_template_kwargs is not"),
        ({"tokenize": True}, "tokenize in chat_template_kwargs is not"),
    ],
)
def test_what_is_no_variable_of_a_template_is_an_error(given, said):
    with pytest.raises(EngineError, match=said):
        prompts_for(tokenizer_for("pocket")).build({"input": "Hi", "chat_template_kwargs": given})


def long_conversation(prompts, tokenizer, turns, monkeypatch):
    """How many characters were tokenised for each prompt of an episode with many tool calls, and the last prompt."""
    items = [user("Look around. " * 50)]
    characters, encode = [], tokenizer.encode

    def counted(text, **options):
        characters[-1] += len(text)
        return encode(text, **options)

    for number in range(turns):
        characters.append(0)
        with monkeypatch.context() as patch:
            patch.setattr(tokenizer, "encode", counted)
            prompt = prompts.build({"input": items}, conversation="long")
        text = f'<tool_call>\n{{"name": "look", "arguments": {{"place": "room {number}"}}}}\n</tool_call>'
        arguments = f'{{"place": "room {number}"}}'
        call = {"type": "function_call", "name": "look", "arguments": arguments, "call_id": f"call_{number}"}
        result = {"type": "function_call_output", "call_id": f"call_{number}", "output": "A wall. " * 20}
        items = [*items, *turn(tokenizer, prompt, text, call), result]
    return characters, prompt


def test_of_many_turns_nothing_but_new_text_is_tokenised(monkeypatch):
    tokenizer = tokenizer_for("pocket")
    characters, prompt = long_conversation(prompts_for(tokenizer), tokenizer, 64, monkeypatch)
    assert len(prompt) > 3000
    assert len(set(characters[1:])) == 1 and len("A wall. " * 20) < characters[1] < 500


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(prompt_tokens, "CACHED_CHARACTERS", 10_000)
    tokenizer = tokenizer_for("pocket")
    prompts = prompts_for(tokenizer)
    first = prompts.build({"input": "Hi"}, conversation="a")
    for number in range(100):
        prompts.build({"input": "x" * 500}, conversation=f"other {number}")
    assert sum(len(text) for _, text in prompts._latest.values()) == prompts._cached_characters <= 10_000
    said = turn(tokenizer, first, "Hello.")
    second = prompts.build({"input": [user("Hi"), *said, user("Bye")]}, conversation="a")
    assert second[: len(first)] == first
