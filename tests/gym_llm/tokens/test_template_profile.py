"""What chat templates want that most do not: small templates with the structure of real ones, and a real tokenizer."""

import logging
from pathlib import Path

import pytest
from token_conversations import SHAPES, tokenizer_for

from gym_llm.errors import EngineError
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.tokens.template import chat_prompt
from gym_llm.tokens.template_profile import TemplateProfile, message_form, nine_characters

FORMS = Path(__file__).parents[2] / "templates" / "forms"
CALL = {"type": "function_call", "name": "look", "arguments": '{"at":"Łódź"}', "call_id": "call_1"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "A wall."}
ASKED = {"role": "user", "content": "Look."}


def tokenizer_with(name, *tokens):
    tokenizer = tokenizer_for.__wrapped__("pocket")
    tokenizer.chat_template = (FORMS / f"{name}.jinja").read_text("utf-8")
    if tokens:
        tokenizer.add_tokens(list(tokens), special_tokens=True)
    return tokenizer


@pytest.mark.parametrize("name", [*SHAPES, "pocket"])
def test_most_templates_want_nothing_special(name):
    assert message_form(tokenizer_for(name)) == TemplateProfile()


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("nine_character_ids", TemplateProfile(nine_character_ids=True)),
        ("parts", TemplateProfile(parts=frozenset({"user", "system", "assistant", "tool"}))),
        ("text_arguments", TemplateProfile(text_arguments=True)),
        ("one_system", TemplateProfile(one_system=True, shows_calls=False)),
        ("first_system", TemplateProfile(one_system=True, shows_calls=False)),
        ("hides_calls", TemplateProfile(shows_calls=False)),
        ("channels", TemplateProfile()),
        ("newline_after_thinking", TemplateProfile(newline_after_thinking=True, newline_before_answer=True)),
    ],
)
def test_what_a_template_wants_is_found_out(name, form):
    assert message_form(tokenizer_with(name)) == form


def test_a_template_that_objects_to_everything_is_given_the_usual_form():
    tokenizer = tokenizer_with("hides_calls")
    tokenizer.chat_template = "{{ raise_exception('No.') }}"
    assert message_form(tokenizer) == TemplateProfile()


def test_nine_character_ids_are_the_same_in_a_call_and_in_its_output():
    tokenizer = tokenizer_with("nine_character_ids")
    request = {"input": [ASKED, CALL, OUTPUT]}
    short = nine_characters("call_1")
    assert f'[CALL {short}]{{"at": "Łódź"}}<|im_end|>[RESULT {short}]A wall.' in chat_prompt(request, tokenizer)
    assert request["input"][1]["call_id"] == "call_1"
    theirs = [ASKED, {**CALL, "call_id": "Ab3Ab3Ab3"}, {**OUTPUT, "call_id": "Ab3Ab3Ab3"}]
    assert "[CALL Ab3Ab3Ab3]" in chat_prompt({"input": theirs}, tokenizer)
    assert len({nine_characters(f"call_{number}") for number in range(10_000)}) == 10_000
    assert all(len(nine_characters(odd)) == 9 for odd in ("", None, "\ud800", "x" * 100_000))


def test_texts_reach_a_template_that_shows_parts_only():
    tokenizer = tokenizer_with("parts")
    request = {"instructions": "Be brief.", "input": [ASKED, CALL, OUTPUT]}
    assert chat_prompt(request, tokenizer) == (
        "<|im_start|>system: Be brief.<|im_end|>\n<|im_start|>user: Look.<|im_end|>\n"
        '<|im_start|>assistant: {"name": "look", "arguments": {"at": "Łódź"}}<|im_end|>\n'
        "<|im_start|>tool: A wall.<|im_end|>\n<|im_start|>assistant:"
    )
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}
    with pytest.raises(EngineError, match="text only"):
        chat_prompt({"input": [image]}, tokenizer)


def test_arguments_are_given_as_they_were_written_where_a_template_wants_a_string():
    shown = chat_prompt({"input": [ASKED, CALL, OUTPUT]}, tokenizer_with("text_arguments"))
    assert 'look({"at":"Łódź"})<|im_end|>' in shown


@pytest.mark.parametrize("name", ["one_system", "first_system"])
def test_system_messages_are_made_one_where_a_template_takes_one(name):
    request = {"instructions": "Be brief.", "input": [{"role": "developer", "content": "Be kind."}, ASKED]}
    assert chat_prompt(request, tokenizer_with(name)).startswith("SYSTEM Be brief.\n\nBe kind.\n<|im_start|>user\n")
    several = chat_prompt(request, tokenizer_for("pocket"))
    assert "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>system\nBe kind.<|im_end|>" in several


def test_a_template_that_hides_the_models_calls_is_warned_of_once(caplog):
    requests = [{"input": "Hi"}, *[{"input": [ASKED, CALL, OUTPUT]}] * 3]
    with caplog.at_level(logging.WARNING):
        for name, history, warnings in [
            ("hides_calls", "template", 1),
            ("hides_calls", "append", 0),
            ("parts", "template", 0),
        ]:
            tokenizer = tokenizer_with(name)
            prompts = PromptTokens(tokenizer, stop_token_ids=[tokenizer.eos_token_id], history=history)
            for request in requests:
                prompts.build(request)
            assert [record.getMessage() for record in caplog.records if "its own calls" in record.getMessage()] == [
                record.getMessage() for record in caplog.records
            ]
            assert len(caplog.records) == warnings
            caplog.clear()


@pytest.mark.parametrize("text", ["Hm.\n</think>\nHi.", "Hm.\n</think>\n\nHi.", "\nHm.\n\n</think>\nHi.", "Hm.\n"])
def test_a_turn_whose_thinking_ends_in_the_templates_newline_goes_on(text):
    tokenizer = tokenizer_with("newline_after_thinking")
    prompts = PromptTokens(tokenizer, stop_token_ids=[tokenizer.eos_token_id])
    first = prompts.build({"input": [ASKED]})
    thinking, closed, answer = text.partition("</think>")
    items = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": thinking}]}]
    if closed:
        items.append({"type": "message", "role": "assistant", "content": answer})
    turn = said(tokenizer, first, text, *items)
    second = prompts.build({"input": [ASKED, *turn, {"role": "user", "content": "Go on."}]})
    sampled = turn[-1]["generation_token_ids"]
    assert second[: len(first) + len(sampled)] == first + sampled


# The structure of gpt-oss' template -----------------------------------------------------------------------------------


def channels():
    tokens = ("<|start|>", "<|message|>", "<|call|>", "<|end|>", "<|return|>")
    tokenizer = tokenizer_with("channels", *tokens)
    stops = tokenizer.convert_tokens_to_ids(["<|call|>", "<|return|>"])
    return tokenizer, PromptTokens(tokenizer, stop_token_ids=stops, history="append")


def said(tokenizer, prompt, text, *items):
    """The items of a turn that was sampled as this text."""
    sampled = tokenizer.encode(text, add_special_tokens=False)
    tokens = {
        "prompt_token_ids": prompt,
        "generation_token_ids": sampled,
        "generation_log_probs": [-1.0] * len(sampled),
    }
    return [*items[:-1], {**items[-1], **tokens}]


def test_parallel_calls_go_on_where_a_template_shows_one_call_a_message():
    tokenizer, prompts = channels()
    first = prompts.build({"input": [ASKED]})
    text = ' to=look<|message|>{"at":"a"}<|call|><|start|>assistant to=look<|message|>{"at":"b"}<|call|>'
    turn = said(tokenizer, first, text, CALL, {**CALL, "call_id": "call_2"})
    outputs = [OUTPUT, {**OUTPUT, "call_id": "call_2", "output": "A door."}]
    second = tokenizer.decode(prompts.build({"input": [ASKED, *turn, *outputs]}))
    assert second == (
        tokenizer.decode(first)
        + text
        + "<|start|>look<|message|>A wall.<|end|><|start|>look<|message|>A door.<|end|><|start|>assistant"
    )


def test_an_answer_is_ended_by_the_token_that_was_sampled_and_no_other():
    tokenizer, prompts = channels()
    first = prompts.build({"input": [ASKED]})
    answer = {"type": "message", "role": "assistant", "content": "A wall."}
    turn = said(tokenizer, first, "<|message|>A wall.<|return|>", answer)
    second = tokenizer.decode(prompts.build({"input": [ASKED, *turn, {"role": "user", "content": "And now?"}]}))
    assert second == (
        tokenizer.decode(first)
        + "<|message|>A wall.<|return|><|start|>user<|message|>And now?<|end|><|start|>assistant"
    )
    cut = said(tokenizer, first, "<|message|>A wa", answer)
    second = tokenizer.decode(prompts.build({"input": [ASKED, *cut, {"role": "user", "content": "And now?"}]}))
    assert "<|message|>A wa<|end|><|start|>user" in second
