"""The environment that recorded episodes of verifiers name `demo-v0`, rebuilt from them, and one with a tool."""

import verifiers.legacy as vf
from datasets import Dataset


def load_environment(tool: bool = False) -> vf.Environment:
    rows = [{"question": f"What is {n}+{n}?", "answer": str(2 * n)} for n in range(12)]
    if tool:

        async def exact(completion, answer) -> float:
            return float(completion[-1]["content"] == answer)

        return vf.ToolEnv(dataset=Dataset.from_list(rows), tools=[add], rubric=vf.Rubric(funcs=[exact]), max_turns=4)
    parser = vf.XMLParser(["think", "answer"], answer_field="answer")

    def exact(completion, answer) -> float:
        return float(parser.parse_answer(completion) == answer)

    rubric = vf.Rubric(funcs=[exact, parser.get_format_reward_func()], weights=[1.0, 0.2], parser=parser)
    prompt = "Use <think> and <answer>."
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), system_prompt=prompt, parser=parser, rubric=rubric)


async def add(x: int, y: int) -> int:
    """Add two numbers."""
    return x + y
