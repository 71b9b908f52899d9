"""In Inspect's environment: its own loaders find our tasks, its model plays them, and our verifiers score them."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
from inspect_ai import eval as inspect_eval
from inspect_ai import eval_retry
from inspect_ai.model import ContentReasoning, ContentText, GenerateConfig, ModelOutput, ModelUsage, get_model
from inspect_ai.tool import ToolCall

from gym_llm.errors import UsageError
from gym_llm.evaluation.inspect_tasks import messages

folder = Path(sys.argv[1])
os.environ["INSPECT_LOG_DIR"] = str(folder / "logs")


def outputs(*said: Any) -> Any:
    """A mocked model that says these, one after the other: a text, or the arguments of a call."""
    return get_model("mockllm/model", custom_outputs=[_output(each) for each in said])


def _output(said: Any) -> ModelOutput:
    is_text = isinstance(said, str)
    output = ModelOutput.from_content("m", said) if is_text else ModelOutput.for_tool_call("m", said[0], said[1])
    output.usage = ModelUsage(input_tokens=3, output_tokens=2, total_tokens=6, input_tokens_cache_read=1)
    return output


def run(task: str, model: Any, **given: Any) -> Any:
    (log,) = inspect_eval(task, model=model, display="none", log_level="error", max_samples=1, **given)
    return log


def rows(*contents: dict[str, Any], name: str = "rows.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(each) + "\n" for each in contents))
    return str(path)


# Tools: ours run, and the score is ours. Two tasks, two epochs; the second task's model asks for the wrong city.
weather = rows(
    *(
        {"responses_create_params": {"input": f"{city}?", "temperature": 0.5}, "expected_city": city}
        for city in ("Rome", "Oslo")
    )
)
calls = [("get_weather", {"city": city}) for city in ("Rome", "Paris", "Rome", "Oslo")]
said = [each for call in calls for each in (call, "It is cold.")]
log = run("gym_llm/Weather-v0", outputs(*said), task_args={"tasks": weather, "repeats": 2, "seed": 3})
assert log.status == "success" and log.eval.task == "gym_llm/Weather-v0", (log.status, log.eval.task)
rewards = {(each.id, each.epoch): each.scores["reward"].value for each in log.samples}
assert rewards == {(0, 1): 1.0, (1, 1): 0.0, (0, 2): 1.0, (1, 2): 1.0}, rewards
assert log.results.scores[0].metrics["mean"].value == 0.75
sample = next(each for each in log.samples if (each.id, each.epoch) == (0, 1))
roles = [message.role for message in sample.messages]
assert roles == ["user", "assistant", "tool", "assistant"], roles
own = gym.make("gym_llm/Weather-v0", tasks=weather).unwrapped
own.reset(options={"task_index": 0})
call = {"type": "function_call", "call_id": "1", "name": "get_weather", "arguments": '{"city": "Rome"}'}
assert sample.messages[2].text == own.step([call])[0]["input"][-1]["output"]
assert sample.scores["reward"].metadata["outcome"] == "scored" and sample.scores["reward"].metadata["turn"] == 2
asked = [event for event in sample.events if event.event == "model"]
assert asked[0].config.temperature == 0.5 and asked[0].tools[0].name == "get_weather"
log = run("gym_llm/Weather-v0", outputs("Cold."), task_args={"tasks": weather, "limit": 1}, temperature=0.1)
assert [event.config.temperature for event in log.samples[0].events if event.event == "model"] == [0.1]

# User turns, and a limit of Inspect's: what there is is scored, as truncated.
log = run("gym_llm/FollowUp-v0", outputs(*["Jupiter."] * 9), task_args={"limit": 1})
assert log.samples[0].scores["reward"].metadata["turn"] == 2, log.samples[0].scores
log = run("gym_llm/FollowUp-v0", outputs(*["Jupiter."] * 9), task_args={"limit": 1}, message_limit=3)
score = log.samples[0].scores["reward"]
assert score.metadata["outcome"] == "truncated" and log.samples[0].limit.type == "message", (
    score,
    log.samples[0].limit,
)
log = run("gym_llm/Arithmetic-v0", outputs("1"), task_args={"limit": 1, "env_kwargs": {"max_turns": 1}})
assert log.samples[0].scores["reward"].metadata["outcome"] == "scored"

# A masked episode is a sample's error and no score, and the others go on.
(folder / "breaks.py").write_text(
    '''
import gym_llm

class Breaks(gym_llm.VerifierEnv):
    """Breaks at the model's word."""

    closed = 0

    def verify(self, task, episode):
        if episode.answer == "Break.":
            raise RuntimeError("The verifier is broken.")
        return 0.25

    def teardown(self, task, episode):
        Breaks.closed += 1
'''
)
three = rows(*({"responses_create_params": {"input": str(n)}} for n in range(3)), name="three.jsonl")
given = {"env": str(folder / "breaks.py"), "tasks": three}
log = run("gym_llm/env", outputs("Hi.", "Break.", "Hi."), task_args=given)
assert log.status == "success" and log.results.completed_samples == 2
(broken,) = [each for each in log.samples if each.error]
assert "verifier_error in verify" in broken.error.message and "The verifier is broken." in broken.error.message
assert not broken.scores and [each.scores["reward"].value for each in log.samples if not each.error] == [0.25] * 2
assert log.results.scores[0].metrics["mean"].value == 0.25
retried = eval_retry(log.location, display="none", log_level="error")[0]
assert retried.status == "success" and retried.eval.task == "gym_llm/env", retried.error
assert [each.scores["reward"].value for each in retried.samples if each.scores] == [0.25] * 2  # those are kept

# A benchmark, by its name: rows from the hub, its prompt and sampling.
log = run("gym_llm/aime25", outputs("\\\\boxed{2}", "\\\\boxed{9}"), task_args={"limit": 2, "repeats": 1})
assert log.status == "success", log.error
scores = [each.scores["reward"].value for each in log.samples]
assert scores == [1.0, 0.0], scores
assert log.samples[0].target == "2" and "boxed" in log.samples[0].input[0].text

# What a model's output becomes.
output = ModelOutput.from_content("m", "x")
message = output.choices[0].message
message.content = [ContentReasoning(reasoning="Hm."), ContentText(text="Yes.")]
message.tool_calls = [ToolCall("a", "f", {"x": 1}), ToolCall("b", "g", {}, parse_error="broken {")]
output.choices[0].stop_reason = "max_tokens"
response = messages.response_of(output)
kinds = [item["type"] for item in response["output"]]
assert kinds == ["reasoning", "message", "function_call", "function_call"], kinds
assert response["output"][2]["arguments"] == '{"x": 1}' and response["output"][3]["arguments"] == "(broken {)"
assert response["incomplete_details"] == {"reason": "max_output_tokens"} and response["status"] == "incomplete"

# Schemas: references, also recursive ones.
node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "kind": {"const": "a"}}}
nested = {"properties": {"n": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
tool = {"type": "function", "name": "f", "parameters": nested}
(info,) = messages.tool_infos({"input": [], "tools": [tool]})
assert info.parameters.properties["n"].properties["kind"].enum == ["a"]
assert info.parameters.properties["n"].properties["next"].properties is None
wide: dict[str, Any] = {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 2} for n in range(40)}
try:
    endless = {"$defs": wide, "properties": {"x": {"$ref": "#/$defs/D0"}}}
    messages.tool_infos({"input": [], "tools": [{**tool, "parameters": endless}]})
except UsageError as error:
    assert "10,000 parts" in str(error)
else:
    raise AssertionError("a schema that grows without end was accepted")
asked = messages.sampling_config({"input": [], "reasoning": {"effort": "low"}, "max_output_tokens": 9, "top_p": None})
assert asked == {"max_tokens": 9, "reasoning_effort": "low"} and GenerateConfig(**asked)
print(json.dumps({"passed": True}))
