"""Records tasks of other frameworks themselves: `python foreign_tasks.py NAME COUNT FILE.jsonl`.

See `foreign_games.py`.
Answers are right, nearly right, and wrong.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from foreign_games import plain

sys.path.pop(0)  # scripts beside this one have the names of frameworks
_TESTS = Path(__file__).resolve().parent.parent / "tests" / "envs" / "theirs"
_DOCS = Path(__file__).resolve().parent / "foreign_mcp_server.py"


def _about(framework: str, package: str, env: str, kwargs: Any, seed: int | None = None) -> dict[str, Any]:
    return {"framework": framework, "version": version(package), "env": env, "seed": seed, "kwargs": kwargs}


def skyrl_gym(count: int) -> Iterator[dict[str, Any]]:
    import skyrl_gym as framework
    from omegaconf import OmegaConf

    answers = ["#### {}", "#### {}.", "It is {}", "Answer: {}", "#### 7\n#### {}", "", "#### 1,0{}", "\\boxed{{{}}}"]
    for number in range(count):
        draw, truth = random.Random(number), str(number * 7 % 300)
        env = ("gsm8k", "aime", "gsm8k_multi_turn", "search")[number % 4]
        spec: dict[str, Any] = {"reward_model" if env == "aime" else "reward_spec": {"ground_truth": truth}}
        config: dict[str, Any] = {}
        if env == "search":
            spec = {"reward_spec": {"ground_truth": {"target": [truth]}}, "max_turns": 2}
            config = {"log_requests": False, "search_url": "http://127.0.0.1:9/x", "topk": 3, "timeout": 1}
            texts = [f"<answer>{truth}</answer>", f"<answer> {truth}! </answer>", "<answer>no</answer>", truth]
        else:
            texts = [each.format(draw.choice([truth, "3"])) for each in answers]
        if env == "gsm8k_multi_turn":
            spec["extra_info"] = {"max_turns": 3}
        made = framework.make(env, env_config=OmegaConf.create(config), extras=json.loads(json.dumps(spec)))
        messages, _ = made.init([{"role": "user", "content": "q"}])
        episode = _about("skyrl_gym", "skyrl-gym", env, {"extras": spec, "env_config": config})
        episode |= {"actions": [], "observations": [messages], "rewards": [], "done": False}
        while not episode["done"] and len(episode["actions"]) < 4:
            episode["actions"].append(draw.choice(texts))
            output = made.step(episode["actions"][-1])
            episode["observations"].append(output["observations"])
            episode["rewards"].append(output["reward"])
            episode["done"] = bool(output["done"])
        yield json.loads(json.dumps(episode))  # `observations` are its own lists


def aviary(count: int) -> Iterator[dict[str, Any]]:
    from aviary.env import ENV_REGISTRY
    from aviary.message import Message
    from aviary.tools import ToolCall, ToolCallFunction, ToolRequestMessage

    places = [ENV_REGISTRY[name] for name in ("dummy", "calculator")]
    dummy, calculator = (getattr(__import__(module, fromlist=[cls]), cls) for module, cls in places)

    async def play(number: int) -> dict[str, Any]:
        draw, is_dummy = random.Random(number), number % 2 == 0
        if is_dummy:
            kwargs: dict[str, Any] = {"end_immediately": bool(number % 4), "task": f"owls {number}"}
            choices: list[Any] = [[["print_story", {"story": f"a b {number}"}]], [["cast_int", {"x": 1.2 * number}]]]
            choices += [[["cast_int", {"x": 1}], ["print_story", {"story": "b"}]], "I say this.", [["none", {}]]]
            env = dummy(**kwargs)
        else:
            kwargs = {"problem": "1+?", "answer": number % 5}
            choices = [[["calculator", {"expr": f"{number}+1"}]], [["submit_answer", {"answer": str(number % 7)}]]]
            choices += [[["submit_answer", {"answer": "x"}]], [["calculator", {"expr": "1/0"}]], "Hm."]
            env = calculator(problem_id="", **kwargs)
        messages, _ = await env.reset()
        dumped = [[each.model_dump(exclude_none=True, mode="json") for each in messages]]
        episode = _about("fhaviary", "fhaviary", "dummy" if is_dummy else "CalculatorEnv", kwargs)
        episode |= {"actions": [], "observations": dumped, "rewards": [], "done": False}
        for _ in range(4):
            action = draw.choice(choices)
            calls = [] if isinstance(action, str) else action
            asked = [
                ToolCall(id=f"c{n}", type="function", function=ToolCallFunction(name=name, arguments=given))
                for n, (name, given) in enumerate(calls)
            ]
            message = ToolRequestMessage(content=None, tool_calls=asked)
            if not calls:
                message = Message(role="assistant", content=action)
            episode["actions"].append(action)
            try:
                messages, reward, done, truncated = await env.step(message)
            except Exception as error:
                episode["rewards"].append({"raises": repr(error)})
                break
            dumped.append([each.model_dump(exclude_none=True, mode="json") for each in messages])
            episode["rewards"].append(float(reward))
            if done or truncated:
                episode["done"] = True
                break
        await env.close()
        return episode

    for number in range(count):
        yield asyncio.run(play(number))


def inspect(count: int) -> Iterator[dict[str, Any]]:
    """Its own `eval` plays: a mocked model gives the answers."""
    import inspect_ai
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import answer, choice, exact, f1, includes, match, pattern, value_to_float
    from inspect_ai.solver import generate, multiple_choice

    kinds: list[tuple[str, dict[str, Any], Any, list[str], list[str]]] = [
        ("match", {"location": "end"}, match, ["2", "Paris"], ["2", "It is 2.", "2 it is", "paris!", "Paris"]),
        ("match-numeric", {"numeric": True}, match, ["11", "1000"], ["11.0", "$1,000", "It is 11", "11%", "one"]),
        ("includes", {}, includes, ["Paris"], ["paris", "In Paris.", "Lyon", ""]),
        ("pattern", {"pattern": r"ANSWER: (\w+)"}, pattern, ["B"], ["ANSWER: B", "ANSWER: c", "B", "ANSWER:B"]),
        ("answer-letter", {"pattern": "letter"}, answer, ["B"], ["ANSWER: B", "answer: b", "ANSWER: C", "B"]),
        ("answer-line", {"pattern": "line"}, answer, ["forty two"], ["ANSWER: forty two", "ANSWER: 42", "x"]),
        ("exact", {}, exact, ["The cat"], ["cat", "The Cat", "a cat!", "dog"]),
        ("f1", {}, f1, ["the quick fox"], ["quick fox", "fox", "slow dog", "The quick brown fox"]),
        ("choice", {}, choice, ["B"], ["ANSWER: B", "ANSWER: A", "B", "ANSWER: Z", "ANSWER: b"]),
    ]
    each = -(-count // len(kinds))
    for name, kwargs, scorer, targets, texts in kinds:
        draw, is_choice = random.Random(name), name == "choice"
        choices = ["x", "y", "z"] if is_choice else None
        rows = [(draw.choice(targets), draw.choice(texts)) for _ in range(each)]
        samples = [Sample(input=f"q{n}", target=target, choices=choices) for n, (target, _) in enumerate(rows)]
        outputs = [ModelOutput.from_content("mock", text) for _, text in rows]
        for output in outputs:
            output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        task = inspect_ai.Task(
            dataset=MemoryDataset(samples),
            solver=multiple_choice() if is_choice else generate(),
            scorer=scorer(**kwargs),
        )
        os.environ["INSPECT_LOG_DIR"] = "/tmp/foreign-tasks-inspect"
        model = get_model("mockllm/model", custom_outputs=outputs, memoize=False)
        (log,) = inspect_ai.eval(task, model=model, max_samples=1, display="none", log_level="error")
        for sample, (target, text) in zip(log.samples, rows, strict=True):
            (score,) = sample.scores.values()
            episode = _about("inspect_ai", "inspect-ai", name, {**kwargs, "target": target, "choices": choices})
            episode |= {"actions": [text], "observations": [sample.input], "done": True}
            yield episode | {"rewards": [value_to_float()(score.value)]}


_DEMO: dict[str, Any] = {
    "task": "demo_gen",
    "dataset_path": "json",
    "output_type": "generate_until",
    "test_split": "test",
    "doc_to_text": "Q: {{question}}\nA:",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["\n\n", "Q:"], "do_sample": False, "max_gen_toks": 64},
    "num_fewshot": 0,
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "ignore_case": True}],
    "filter_list": [
        {
            "name": "strict",
            "filter": [
                {"function": "regex", "regex_pattern": "#### (\\-?[0-9\\.\\,]+)"},
                {"function": "take_first"},
            ],
        },
        {
            "name": "flexible",
            "filter": [
                {"function": "regex", "group_select": -1, "regex_pattern": "(-?[$0-9.,]{2,})|(-?[0-9]+)"},
                {"function": "take_first"},
            ],
        },
    ],
}


def lm_eval(count: int) -> Iterator[dict[str, Any]]:
    """Its own `evaluate` plays: a model of its interface gives the answers, cut off as its models do."""
    import tempfile

    import datasets
    from lm_eval import evaluator
    from lm_eval.api.model import LM
    from lm_eval.api.task import ConfigurableTask

    texts = ["#### {}", "#### {}\n\nQ: #### 9", "It is {}.", "The answer is ${},000 #### {}", "none", "Q: {}", ""]
    docs = [{"question": f"What is {n}+{n}?", "answer": str(2 * n)} for n in range(count // 2)]
    draw = random.Random(0)
    said = [draw.choice(texts).replace("{}", draw.choice([doc["answer"], "5"])) for doc in docs]

    class Canned(LM):  # type: ignore[misc]
        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            found = []
            for request in requests:
                text = said[int(request.args[0].split("+")[-1].split("?")[0])]
                for stop in request.args[1]["until"]:
                    text = text.partition(stop)[0]
                found.append(text)
            return found

        def loglikelihood(self, requests: Any) -> Any:
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "docs.jsonl"
        path.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
        assert datasets
        config = {**_DEMO, "dataset_kwargs": {"data_files": {"test": str(path)}}}
        task = ConfigurableTask(config=json.loads(json.dumps(config)))
        results = evaluator.evaluate(lm=Canned(), task_dict={"demo_gen": task}, log_samples=True, bootstrap_iters=0)
        for sample in results["samples"]["demo_gen"]:
            episode = _about("lm_eval", "lm-eval", "demo_gen", {"filter": sample["filter"], "config": config})
            question = sample["arguments"][0][0] if isinstance(sample["arguments"], list) else sample["arguments"]
            if isinstance(question, dict):
                question = question["gen_args_0"]["arg_0"]
            episode |= {"actions": [said[sample["doc_id"]]], "observations": [question], "done": True}
            yield episode | {"rewards": [float(sample["exact_match"])], "doc": sample["doc"]}


def verifiers(count: int) -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(_TESTS))
    import demo_v0
    from verifiers.legacy.clients.client import Client
    from verifiers.legacy.types import Response, ResponseMessage

    env = demo_v0.load_environment()
    texts = ["<think>x</think><answer>{}</answer>", "<answer>{}</answer>", "{}", "<think>x<answer>{}</answer>", ""]

    async def play(number: int) -> dict[str, Any]:
        row = env.get_dataset()[number % 12]
        text = random.Random(number).choice(texts).format(2 * (number % 12) if number % 3 else 5)

        async def get_response(self: Any, *_: Any, **__: Any) -> Any:
            message = ResponseMessage(content=text, tool_calls=None, finish_reason="stop", is_truncated=False)
            return Response(id="", created=0, model="m", message=message)

        client = type("Canned", (Client,), {**dict.fromkeys(Client.__abstractmethods__), "get_response": get_response})
        output = await env.run_rollout(row, client(None), "m", {})
        episode = _about("verifiers", "verifiers", "demo_v0", {"i": number % 12})
        episode |= {
            "version": f"{episode['version']}-legacy",
            "actions": [text],
            "observations": [plain(row["prompt"])],
        }
        return {**episode, "rewards": [output["reward"]], "done": True}

    for number in range(count):
        yield asyncio.run(play(number))


def verifiers_v1(count: int) -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(_TESTS))
    import verifiers.v1 as vf
    from verifiers.v1.types import UserMessage

    tasks = list(vf.load_taskset(vf.taskset_config_type("demo_v1")(id="demo_v1")).load())
    texts = ["{}", "please {}", "{} please", "{}.", ""]

    async def play(number: int) -> dict[str, Any]:
        task = tasks[number % 12]
        text = random.Random(number).choice(texts).format(2 * (number % 12) if number % 3 else 5)
        about = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        agent = vf.AgentInfo(config=vf.AgentConfig())
        trace = vf.Trace[type(task.data), vf.State, vf.AgentConfig](task=about, agent=agent)  # type: ignore[misc]
        trace.nodes.append(vf.MessageNode(parent=None, message=UserMessage(content=task.data.prompt)))
        trace.nodes.append(vf.MessageNode(parent=0, sampled=True, message=vf.AssistantMessage(content=text)))
        await task.score(trace)
        episode = _about("verifiers", "verifiers", "demo_v1(demo_v1.py)", {"idx": number % 12})
        episode |= {"actions": [text], "observations": [task.data.model_dump(mode="json")]}
        return {**episode, "rewards": [trace.reward], "done": True}

    for number in range(count):
        yield asyncio.run(play(number))


def reasoning_gym(count: int) -> Iterator[dict[str, Any]]:
    import reasoning_gym as framework
    from reasoning_gym.factory import DATASETS

    slow = {"arc_agi", "rearc", "zebra_puzzles", "figlet_font", "group_anagrams", "composite"}
    unrepeatable = {"codeio", "isomorphic_strings", "polynomial_multiplication", "ransom_note"}
    names = sorted(set(DATASETS) - slow - unrepeatable)
    for number in range(count):
        name, draw = names[number % len(names)], random.Random(number)
        data = framework.create_dataset(name, seed=number, size=3)
        entry = data[number % 3]
        text = draw.choice([str(entry["answer"]), f"The answer is {entry['answer']}", "7", ""])
        episode = _about("reasoning_gym", "reasoning-gym", name, {"size": 3, "index": number % 3}, number)
        try:
            score: Any = data.score_answer(text, entry)
        except Exception as error:
            score = {"raises": repr(error)}
        yield episode | {"actions": [text], "observations": [entry["question"]], "rewards": [score], "done": True}


def mcp(count: int) -> Iterator[dict[str, Any]]:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def play(number: int) -> dict[str, Any]:
        draw, server = random.Random(number), "foreign_mcp_server.py"
        episode = _about("mcp", "mcp", server, {"transport": "stdio"}, number)
        parameters = StdioServerParameters(command=sys.executable, args=[str(_DOCS)])
        async with Client(stdio_client(parameters), cache=None) as client:
            listed = await client.list_tools()
            seen: list[Any] = [[_dumped(each) for each in listed.tools]]
            episode |= {"actions": [], "observations": seen, "rewards": [], "done": False}
            for _ in range(3):
                name = draw.choice(["balance", "transfer", "history", "no_such_tool"])
                given: dict[str, Any] = {"name": draw.choice("abz")} if name == "balance" else {}
                if name == "transfer":
                    given = {"src": "a", "dst": draw.choice("bz"), "amount": draw.choice([3, 200, "x"])}
                episode["actions"].append([name, given])
                try:
                    seen.append(_dumped(await client.call_tool(name, given)))
                except Exception as error:  # JSON-RPC's errors: the model reads them
                    seen.append({"content": [{"type": "text", "text": error.error.message}], "isError": True})  # type: ignore[attr-defined]
        return episode

    for number in range(count):
        yield asyncio.run(play(number))


def _dumped(model: Any) -> Any:
    return model.model_dump(by_alias=True, exclude_none=True, mode="json")


def openenv(count: int) -> Iterator[dict[str, Any]]:
    """OpenEnv's own client asks its own server."""
    from openenv.core.generic_client import GenericEnvClient

    for number in range(count):
        draw = random.Random(number)
        episode = _about("openenv", "openenv", "counter", {"seed": number}, number)
        client = GenericEnvClient(base_url=os.environ["OPENENV_URL"]).sync()
        with client:
            result = client.reset(seed=number)
            seen, rewards = [plain(result.observation)], [float(result.reward or 0.0)]
            episode |= {"actions": [], "observations": seen, "rewards": rewards}
            while not result.done and len(episode["actions"]) < 3:
                action = {"amount": draw.choice([1, 2, 3])}
                episode["actions"].append(action)
                result = client.step(action)
                seen.append(plain(result.observation))
                rewards.append(float(result.reward or 0.0))
        yield episode | {"done": bool(result.done)}


if __name__ == "__main__":
    with open(sys.argv[3], "w") as file:
        for recorded in itertools.islice(globals()[sys.argv[1]](int(sys.argv[2])), int(sys.argv[2])):
            file.write(json.dumps(recorded) + "\n")
