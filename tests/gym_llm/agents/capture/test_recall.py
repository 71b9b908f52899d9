import pytest
from testing import in_loop

from gym_llm.agents.capture import CaptureSession
from gym_llm.agents.capture.capture_session import CallRefused
from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.engines.engine_response import text_response
from gym_llm.errors import EngineError
from gym_llm.types import TOKEN_FIELDS


class SaysYes(Engine):
    """Says one word, after the ids that the last turn came with, or two ids for each item."""

    model = "yes"
    capabilities = Capabilities(token_ids=True)

    async def respond(self, request, *, episode_id=""):
        items, prompt = request["input"], []
        for item in items:
            if "generation_token_ids" in item:
                prompt = [*item["prompt_token_ids"], *item["generation_token_ids"]]
            elif item["role"] == "user":
                prompt += [1, 2]
        return text_response("Yes.", tokens=(prompt, [7, 8], [-0.5, -0.25]), model=self.model)


@in_loop
async def test_two_conversations_that_are_alike_word_for_word_are_a_branch_each():
    session = CaptureSession(SaysYes())
    question = {"role": "user", "content": "Yes?"}
    one, other = [question], [question]
    for _ in range(4):
        for conversation in (one, other):
            response = await session.call({"input": list(conversation)})
            text = response["output"][0]["content"][0]["text"]
            conversation += [{"role": "assistant", "content": text}, question]
    assert [branch["loss_mask"] for branch in session.trajectory()] == [[0, 0, 1, 1] * 4] * 2


@in_loop
async def test_of_answers_that_are_alike_the_latest_is_continued():
    session = CaptureSession(SaysYes())
    question = {"role": "user", "content": "Yes?"}
    for _ in range(3):
        await session.call({"input": [question]})
    await session.call({"input": [question, {"role": "assistant", "content": "Yes."}, question]})
    assert session.calls[-1].previous is session.calls[2]
    assert [len(branch["input_ids"]) for branch in session.trajectory()] == [4, 4, 8]


class Thinks(SaysYes):
    """Says one word after other thoughts each time, and remembers what it was asked."""

    def __init__(self):
        self.asked = []

    async def respond(self, request, *, episode_id=""):
        self.asked.append(request["input"])
        response = await super().respond({"input": [i for i in request["input"] if i.get("type") != "reasoning"]})
        thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": f"thought {len(self.asked)}"}]}
        return {**response, "output": [thought, *response["output"]]}


def bare(items):
    return [{name: value for name, value in item.items() if name not in TOKEN_FIELDS} for item in items]


@in_loop
async def test_of_answers_that_are_alike_the_one_is_continued_whose_thoughts_came_back():
    session = CaptureSession(Thinks())
    question = {"role": "user", "content": "Yes?"}
    answers = [(await session.call({"input": [question]}))["output"] for _ in range(3)]
    await session.call({"input": [question, *bare(answers[1]), question]})
    assert session.calls[-1].previous is session.calls[1]
    assert [len(branch["input_ids"]) for branch in session.trajectory()] == [4, 4, 8]


@in_loop
async def test_of_answers_that_differ_in_a_space_the_one_is_continued_that_came_back():
    class Spaced(SaysYes):
        number = 0

        async def respond(self, request, *, episode_id=""):
            response = await super().respond(request)
            self.number += 1
            response["output"][0]["content"][0]["text"] += " " * self.number
            return response

    session = CaptureSession(Spaced())
    question = {"role": "user", "content": "Yes?"}
    for _ in range(3):
        await session.call({"input": [question]})
    await session.call({"input": [question, {"role": "assistant", "content": "Yes.  "}, question]})
    assert session.calls[-1].previous is session.calls[1]


@in_loop
async def test_a_turn_with_other_thoughts_is_left_as_it_is_and_the_turn_before_still_has_its_tokens():
    engine = Thinks()
    session = CaptureSession(engine)
    said = [{"role": "user", "content": "Yes?"}]
    for _ in range(2):
        said = [*said, *bare((await session.call({"input": said}))["output"]), said[0]]
    said[4] = {**said[4], "summary": [{"type": "summary_text", "text": "I thought nothing."}]}
    await session.call({"input": said})
    assert [index for index, item in enumerate(engine.asked[-1]) if "generation_token_ids" in item] == [2]


@in_loop
async def test_another_model_is_not_asked_with_the_policys_tokens():
    class Other(Thinks):
        model = "other"

    other = Other()
    session = CaptureSession(SaysYes(), others={"other": other})
    question = {"role": "user", "content": "Yes?"}
    told = [question, {"role": "assistant", "content": " Yes. "}, question]
    await session.call({"input": [question]})
    await session.call({"input": told}, model="other")
    assert other.asked == [told]


@in_loop
async def test_retries_of_a_long_prompt_count_with_the_memory_that_they_take():
    class Long(SaysYes):
        async def respond(self, request, *, episode_id=""):
            prompt = [1] * 50_000 + ([7, 8, 1] if len(request["input"]) > 1 else [])
            return text_response("Yes.", tokens=(prompt, [7, 8], [-0.5, -0.25]), model=self.model)

    session = CaptureSession(Long(), max_bytes=4_000_000)
    question = {"role": "user", "content": "Yes?"}
    await session.call({"input": [question]})
    with pytest.raises(CallRefused, match="4,000,000 bytes"):
        for _ in range(30):
            await session.call({"input": [question, {"role": "assistant", "content": "Yes."}, question]})
    assert 5 < len(session.calls) < 20


@in_loop
async def test_an_answer_with_a_wrong_part_has_no_tokens_at_all():
    class Wrong(SaysYes):
        async def respond(self, request, *, episode_id=""):
            response = await super().respond(request)
            item = response["output"][0]
            return {**response, "output": [item, {**item, "generation_log_probs": [-0.5]}]}

    session = CaptureSession(Wrong())
    with pytest.raises(EngineError, match="invalid tokens"):
        await session.call({"input": [{"role": "user", "content": "Yes?"}]})
    assert session.trajectory() == []
    assert session.calls[0].status == "failed"
