"""The format of a model's calls, read off chat templates with the structure of real ones."""

from pathlib import Path

import pytest
from token_conversations import tokenizer_for

from gym_llm.tokens.call_format import CallFormat, call_format
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.tokens.template_profile import message_form

TEMPLATES = Path(__file__).parents[2] / "templates" / "calls"
HERMES = CallFormat(
    start='<tool_call>\n{"name": "',
    middle='", "arguments": ',
    end="}\n</tool_call>",
    between='}\n</tool_call>\n<tool_call>\n{"name": "',
)


def format_of(template):
    tokenizer = tokenizer_for.__wrapped__("pocket")
    tokenizer.chat_template = template
    return call_format(tokenizer, message_form(tokenizer), ["<|im_end|>"])


def test_hermes_calls_follow_the_thinking_that_a_template_inserts():
    assert format_of(tokenizer_for("pocket").chat_template) == HERMES


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama", CallFormat(start='{"name": "', middle='", "parameters": ', end="}")),
        (
            "mistral",
            CallFormat(start='[TOOL_CALLS] [{"name": "', middle='", "arguments": ', end="}]", between='}, {"name": "'),
        ),
        ("mistral_new", CallFormat(start="[TOOL_CALLS]", middle="[ARGS]", end="", between="[TOOL_CALLS]")),
        ("xml", None),
    ],
)
def test_other_formats_are_what_their_templates_write(name, expected):
    assert format_of((TEMPLATES / f"{name}.jinja").read_text()) == expected


def test_a_template_without_calls_has_no_format():
    assert format_of("{% for m in messages %}{{ m.role + m.content }}<|im_end|>{% endfor %}") is None


def test_markup_is_tokens_and_the_rest_is_text():
    tokenizer = tokenizer_for("pocket")
    prompts = PromptTokens(tokenizer, stop_token_ids=[tokenizer.eos_token_id])
    tag, end = (tokenizer.convert_tokens_to_ids(tag) for tag in ("<tool_call>", "</tool_call>"))
    assert prompts.pieces(HERMES.start) == [tag, '\n{"name": "']
    assert prompts.pieces(HERMES.end) == ["}\n", end]
    assert prompts.pieces("") == []


@pytest.mark.parametrize(("effort", "start"), [(None, ""), ("none", "<think>\n\n</think>\n\n")])
def test_the_start_of_a_turn_says_whether_it_may_think(effort, start):
    tokenizer = tokenizer_for("pocket")
    prompts = PromptTokens(tokenizer, stop_token_ids=[tokenizer.eos_token_id])
    asked = {"input": [], **({"reasoning": {"effort": effort}} if effort else {})}
    assert prompts.thinks and prompts.turn_start(asked) == "<|im_start|>assistant\n" + start
