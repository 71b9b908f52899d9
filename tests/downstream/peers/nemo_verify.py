"""Scores answers with NeMo Gym's own servers, in process: a line of stdin each, a line of stdout for each case.

A line is `server` with its `settings`, or a case: a vector of `gym-llm env conform` without its reward (`source`,
`task`, `output`, and perhaps `judge` and `incomplete`). A case's verdict is `reward` and `info`, or an `error`.
"""

import asyncio
import importlib
import inspect
import itertools
import json
import os
import sys
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import gymnasium
import httpx
import nemo_gym_path  # noqa: F401 # before everything else of its own
import nltk
import ray
import resources_servers
from nemo_gym.base_resources_server import SimpleResourcesServer
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf

ROOT = Path(next(iter(resources_servers.__path__)))
TOOLS = {"example_session_state_mgmt", "math_advanced_calculations"}
"""Servers whose verdicts depend on what their tools did."""


_UNUSED = ("bert_score", "spacy", "spacy.cli", "trafilatura")
"""Modules that a server imports, and that none of its verdicts needs: they search the web, or load models."""
_JSON = {"Content-Type": "application/json"}


class Reply:
    """A judge's answer as the client of a server gets it."""

    ok, status, cookies = True, 200, {}

    def __init__(self, body):
        self._body = body

    async def read(self):
        return json.dumps(self._body).encode()

    async def text(self):
        return json.dumps(self._body)


class Judge(ServerClient):
    """Repeats the texts of a case, or those of a server's name, in their order; without one more it fails."""

    texts: list = []
    models: dict = {}

    async def request(self, server_name, url_path, method, **_options):
        texts = self.models.get(server_name, self.texts)
        if not texts:
            raise ConnectionError("the judge has no more answers")
        text = texts.pop(0)
        if url_path.endswith("chat/completions"):
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            return Reply({"id": "c", "object": "chat.completion", "created": 0, "model": "judge", "choices": [choice]})
        part = {"type": "output_text", "text": text, "annotations": []}
        return Reply(
            response([{"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}])
        )

    async def post(self, server_name, url_path, **options):
        return await self.request(server_name, url_path, "POST", **options)


def response(output, incomplete=False):
    """A response of the Responses API."""
    return {
        **{"id": "resp_1", "object": "response", "created_at": 0, "model": "model", "output": output, "tools": []},
        **{"parallel_tool_calls": True, "tool_choice": "auto", "status": "incomplete" if incomplete else "completed"},
        "incomplete_details": {"reason": "max_output_tokens"} if incomplete else None,
    }


class Server:
    """A server of NeMo Gym with one of its configurations."""

    def __init__(self, name, settings):
        self.name = name
        folder = ROOT / name
        for module in {path.stem for path in folder.iterdir()} & sys.modules.keys():
            if str(getattr(sys.modules[module], "__file__", "")).startswith(str(ROOT)):
                del sys.modules[module]  # a module of another server that has the same name
        sys.path[:0] = [str(folder)]
        sys.path.append(str(folder / ".code"))
        os.chdir(folder)
        module = importlib.import_module(f"resources_servers.{name}.app")
        sys.path.remove(str(folder))
        classes = [value for value in vars(module).values() if inspect.isclass(value)]
        own = [
            each for each in classes if issubclass(each, SimpleResourcesServer) and each.__module__ == module.__name__
        ]
        cls = own[-1]
        config = cls.model_fields["config"].annotation(**{**settings, "host": "", "port": 0, "name": name})
        head = BaseServerConfig(host="", port=0)
        self.judge = Judge(head_server_config=head, global_config_dict=OmegaConf.create({}))
        server = cls(config=config, server_client=self.judge)
        self.turns = hasattr(server, "step")
        waits = name == "xstest"  # until its judge's server answers
        self.module, self.drawn = module, drawn_of(name, module)
        if name == "wmt_translation":
            module.SPBLEU_TOKENIZER = "13a"  # the other is downloaded, and only for what is reported
        if name == "newton_bench":
            judge = importlib.import_module("modules.common.evaluation")
            judge.call_llm_api = lambda *_asked, **_options: (self.judge.texts.pop(0), None, None)
        self.app = SimpleResourcesServer.setup_webserver(server) if waits else server.setup_webserver()
        self.folder = folder

    async def score(self, case):
        """Return the verdict about a case."""
        os.chdir(self.folder)
        self.judge.texts = [call["text"] for call in case.get("judge") or ()]
        self.judge.models = case.get("models") or {}
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server", timeout=60) as client:
            if self.turns:
                return await self._by_turns(client, case)
            await ask(client, "seed_session", case["task"])
            items = [item async for item in run_tools(client, case["output"])] if self.name in TOOLS else case["output"]
            whole = response(items, case.get("incomplete"))
            verdict = await ask(client, "verify", {**case["task"], "response": whole})
        reward = verdict.pop("reward")
        known = {*case["task"], "response", "responses_create_params"}
        return {"reward": reward, "info": {name: value for name, value in verdict.items() if name not in known}}

    async def _by_turns(self, client, case):
        self.drawn.clear()
        opening = (await ask(client, "reset", case["task"]))["observation"]
        reward, step, played = 0.0, {}, 0
        for is_models, items in itertools.groupby(case["output"], lambda item: item.get("role") != "user"):
            items = list(items)
            played += len(items)
            if is_models:
                step = await ask(client, "step", {**case["task"], "response": response(items)})
                reward += step["reward"]
                if step["terminated"] or step["truncated"]:
                    break
        game = {name: list(values) for name, values in self.drawn.items()}
        if self.name == "grl_sokoban":
            game = {"board": opening.split("\n\n")[0].partition("\n")[2]}
        return {"reward": reward, "info": step.get("info") or {}, "task": game, "played": played}


def drawn_of(name, module):
    """Return what a game will have drawn at random, by the name of our tasks' field."""
    drawn = {}
    if name not in ("blackjack", "grl_tetris"):
        return drawn
    field, owner, function = (
        ("cards", module, "_deal") if name == "blackjack" else ("pieces", module.TetrisEnv, "_generate_piece")
    )
    draw = getattr(owner, function)
    if field == "pieces":
        reset = owner.reset
        owner.reset = lambda *args, **options: (drawn.clear(), reset(*args, **options))[1]  # a new game draws anew

    def noted(*args):
        result = draw(*args)
        drawn.setdefault(field, []).append(result if field == "cards" else piece(result))
        return result

    setattr(owner, function, noted)
    return drawn


def piece(result):
    """Return a falling piece as our tasks have it: its kind and its column."""
    (column, _), shape = result
    return ["O" if len(shape) != 2 else "-" if (-1, 0) in shape else "I", column]


def beside(module, name):
    """Return the path of a file beside a module."""
    return str(Path(sys.modules[module].__file__).parent / name)


def called_at_once(function=None, **_options):
    """Ray's decorator without Ray: `remote` calls the function, in this process."""
    if function is None:
        return called_at_once
    function.remote = lambda *args, **kwargs: Called(function(*args, **kwargs))
    return function


class Called:
    """What Ray's `remote` returns: its value is had by `ray.get`, by awaiting it and by its future."""

    def __init__(self, value):
        self.value = value

    def __await__(self):
        yield from ()
        return self.value

    def future(self):
        future = Future()
        future.set_result(self.value)
        return future


async def run_tools(client, items):
    """Yield a model's items, each call with the server's output, as NeMo Gym's agent has it."""
    for item in items:
        if item.get("type") != "function_call_output":
            yield item
        if item.get("type") == "function_call":
            arguments = item["arguments"].encode("utf-8", "replace")
            answer = await client.post(f"/{item['name']}", content=arguments, headers=_JSON)
            yield {"type": "function_call_output", "call_id": item["call_id"], "output": answer.text}


async def ask(client, path, body):
    """Return the body of an answer."""
    answer = await client.post(f"/{path}", content=json.dumps(body).encode(), headers=_JSON)
    if answer.status_code != 200:
        raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:300]}")
    return json.loads(answer.text)


async def verdict_of(servers, settings, case):
    """Return the verdict about a case; a server is made for its first one, and not tried again."""
    name = case["source"].partition("/")[0]
    if name not in servers:
        try:
            servers[name] = Server(name, settings.get(name, {}))
        except Exception as error:
            servers[name] = f"no server: {type(error).__name__}: {str(error)[:300]}"
    server = servers[name]
    if isinstance(server, str):
        return {"error": server}
    try:
        return await asyncio.wait_for(server.score(case), 60)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


async def main():
    """Answer each line."""
    servers, settings = {}, {}
    sys.modules.update({name: MagicMock() for name in _UNUSED}, gym=gymnasium)
    nltk.corpus.wordnet = MagicMock()  # for METEOR, which is reported and not paid
    sys.modules["pkg_resources"] = SimpleNamespace(resource_filename=beside)  # setuptools has it no more
    ray.remote, ray.get = called_at_once, lambda called: called.value
    nltk.download = lambda *_names, **_options: True  # what is there is enough
    sleep = asyncio.sleep
    asyncio.sleep = lambda _seconds, result=None: sleep(0, result)  # before a judge is asked again
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what servers print
    for line in sys.stdin:
        case = json.loads(line)
        if "server" in case:
            settings[case["server"]] = case["settings"]
            continue
        answers.write(json.dumps(await verdict_of(servers, settings, case)) + "\n")
        answers.flush()


asyncio.run(main())
