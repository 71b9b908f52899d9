from testing import in_loop

from gym_llm.capture import CaptureSession
from gym_llm.engines.base import Capabilities, Engine
from gym_llm.engines.token_response import token_response


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
        return token_response(self.model, "Yes.", prompt=prompt, sampled=[7, 8], log_probs=[-0.5, -0.25])


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
