"""A turn that a limit cut off before a closing tag: a thought where the prompt opened one, else an answer."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from model_server import ModelServer

from gym_llm.engines.http import HTTPEngine
from gym_llm.engines.http_bodies import completion_to_response
from gym_llm.engines.thoughts import settle_thought
from gym_llm.engines.transformers import TransformersEngine
from gym_llm.tokens.parsers import make_parser
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.types import TOKEN_FIELDS, Item, message_text
from gym_llm.wrappers import ReasoningParser, ToolCallParser

POCKET = Path(__file__).parents[3] / "gym_llm" / "engines" / "pocket" / "model"
REQUEST: Any = {"input": [{"role": "user", "content": "What is 2 + 2?"}]}
CUT = "If n = 6, the value is \\boxed{42}? But wait, n must be"
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
TAGS = [("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷"), ("<reasoning>", "</reasoning>")]


def message(text: str, status: str = "incomplete", **fields: Any) -> Item:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": [part], **fields}


def read(items: list[Item]) -> list[tuple[str, str]]:
    return [
        ("thought", item["summary"][0]["text"]) if item["type"] == "reasoning" else ("text", message_text([item]))
        for item in items
    ]


@pytest.mark.parametrize(("start", "end"), TAGS)
@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        (CUT, "incomplete", [("thought", CUT)]),
        (f"Call it: {CALL} or", "incomplete", [("thought", f"Call it: {CALL} or")]),
        (CUT, "completed", [("text", CUT)]),
        (CUT, "in_progress", [("text", CUT)]),
        (" \n", "incomplete", [("text", " \n")]),
        ("", "incomplete", [("text", "")]),
        ("hm(end)The answer is 4, be", "incomplete", [("thought", "hm"), ("text", "The answer is 4, be")]),
        ("(start)hm(end)The answer", "incomplete", [("thought", "hm"), ("text", "The answer")]),
        ("(start)a(end)(start)b(end)4 and", "incomplete", [("thought", "a"), ("thought", "b"), ("text", "4 and")]),
        ("(start)a(end)(start)b", "incomplete", [("thought", "a"), ("thought", "b")]),
        ("(start)hm", "incomplete", [("thought", "hm")]),
        ("hm(end)", "incomplete", [("thought", "hm")]),
        ("The answer is 4. `(start)`", "incomplete", [("thought", "The answer is 4. `(start)`")]),
    ],
)
def test_a_cut_off_text_without_a_tag_is_a_thought(
    start: str, end: str, text: str, status: str, expected: list[tuple[str, str]]
) -> None:
    parser = make_parser("reasoning", start=start, end=end)
    tagged = [(kind, said.replace("(start)", start).replace("(end)", end)) for kind, said in expected]
    items = parser.parse([message(text.replace("(start)", start).replace("(end)", end), status)], REQUEST)
    assert read(items) == tagged


@pytest.mark.parametrize(
    "items",
    [
        [message(CUT, phase="final_answer")],
        [{"type": "reasoning", "summary": [], "id": "rs_1"}, message(CUT)],
        [message(CUT), {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}],
        [message("Here is the start.", "completed"), message(CUT)],
    ],
)
def test_what_is_known_to_be_an_answer_stays_one(items: list[Item]) -> None:
    assert make_parser("reasoning").parse(items, REQUEST) is items


@pytest.mark.parametrize("parsers", [True, False])
@pytest.mark.parametrize("where", ["item", "response", "details"])
def test_a_cut_off_thought_earns_nothing(where: str, parsers: bool) -> None:
    env: Any = gym.make("gym_llm/MathVerify-v0", tasks=[{"responses_create_params": REQUEST, "expected_answer": "42"}])
    env = ReasoningParser(ToolCallParser(env)) if parsers else env
    env.reset(seed=0)
    said = message(CUT)
    if where != "item":
        del said["status"]
    response: dict[str, Any] = {"id": "r", "status": "incomplete", "output": [said]}
    if where == "details":
        response = {"id": "r", "incomplete_details": {"reason": "max_output_tokens"}, "output": [said]}
    _, reward, _, truncated, _ = env.step(response)
    assert truncated and reward == (0.0 if parsers else 1.0)


def model_that_thinks(folder: Path) -> str:
    shutil.copytree(POCKET, folder, dirs_exist_ok=True)
    template = (folder / "chat_template.jinja").read_text()
    opened = "{% if add_generation_prompt %}{{ '<think>\\n' }}{% endif %}"
    (folder / "chat_template.jinja").write_text(template.rstrip() + opened)
    return str(folder)


@pytest.mark.parametrize("thinks", [True, False])
@pytest.mark.parametrize("log_probs", [{}, {"top_logprobs": 0, "include": ["message.output_text.logprobs"]}])
def test_an_engine_in_this_process_knows_its_prompt(thinks: bool, log_probs: dict[str, Any], tmp_path: Path) -> None:
    async def run() -> Any:
        model = model_that_thinks(tmp_path / "model") if thinks else str(POCKET)
        async with TransformersEngine(model, device="cpu") as engine:
            return await engine.respond({**REQUEST, **log_probs, "max_output_tokens": 3})

    response = asyncio.run(run())
    (item,) = response["output"]
    assert response["status"] == "incomplete" and all(len(item[field]) for field in TOKEN_FIELDS)
    assert item["type"] == ("reasoning" if thinks else "message")
    assert item.get("phase") == (None if thinks else "final_answer")
    assert make_parser("reasoning").parse([item], REQUEST) == [item] or not thinks


@pytest.mark.parametrize(
    ("start", "text", "reason", "kind"),
    [
        ("<think>\n", CUT, "length", "reasoning"),
        ("<think>", CUT, "length", "reasoning"),
        ("[THINK]", CUT, "length", "reasoning"),
        ("<think>\n", f"hm</think>{CUT}", "length", "message"),
        ("<think>\n", "", "length", "message"),
        ("<think>\n", CUT, "stop", "message"),
        ("<think>\n\n</think>\n\n", CUT, "length", "message"),
        ("", CUT, "length", "message"),
    ],
)
def test_completions_are_of_known_prompts(start: str, text: str, reason: str, kind: str) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    prompts = PromptTokens(tokenizer, stop_token_ids=[])
    prompt = prompts.encode("<|im_start|>assistant\n" + start)
    sampled = {"token_ids": [7], "logprobs": {"token_logprobs": [-0.5]}, "text": text, "finish_reason": reason}
    response = completion_to_response({"choices": [sampled]}, model="m", prompt=prompt)
    (item,) = settle_thought(response, prompt, prompts)["output"]
    assert item["type"] == kind and item["generation_token_ids"] == [7]


@pytest.mark.parametrize(
    ("first", "phase"),
    [
        ({"content": "It is 4."}, "final_answer"),
        ({"content": "hm</think>It is 4."}, None),
        ({"content": "It is 4.", "reasoning_content": "hm"}, None),
        ({}, None),
        ({"reasoning_tokens": 0}, "final_answer"),
        ({"reasoning_tokens": None}, None),
    ],
)
def test_a_chat_server_without_thoughts_so_far_is_believed(first: dict[str, Any], phase: str | None) -> None:
    server = ModelServer()
    cut: dict[str, Any] = {"message": {"role": "assistant", "content": CUT}, "finish_reason": "length"}
    if "content" not in first:
        cut["usage"] = {"completion_tokens_details": first}

    async def run() -> Any:
        async with HTTPEngine(server.url) as engine:
            if "content" in first:
                server.answer = lambda body: {"message": {"role": "assistant", **first}, "finish_reason": "stop"}
                await engine.respond(REQUEST)
            server.answer = lambda body: cut
            return await engine.respond(REQUEST)

    try:
        (item,) = asyncio.run(run())["output"]
    finally:
        server.close()
    assert item["status"] == "incomplete" and item.get("phase") == phase
