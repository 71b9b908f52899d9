"""Traces of episodes, as a collector on loopback receives them."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import gymnasium as gym
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from gym_llm import BaseTask, ToolError, VerifierEnv, collect, hook, tool
from gym_llm.cli import main
from gym_llm.engines import Engine
from gym_llm.errors import EngineError, UsageError
from gym_llm.evaluation.tracking.otel import Tracing

pytestmark = pytest.mark.slow


@pytest.fixture
def collector():
    """Its address, and the spans that it was sent, as dicts."""
    spans = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", spans
    server.shutdown()
    server.server_close()


def attributes(span):
    return {each.key: getattr(each.value, each.value.WhichOneof("value"), None) for each in span.attributes}


class Shop(VerifierEnv):
    """Buy an apple."""

    class Task(BaseTask):
        pass

    def generate(self, rng):
        return {"responses_create_params": {"input": "Buy."}}

    @tool
    async def buy(self, fruit: str) -> str:
        """Buy."""
        if fruit != "apple":
            raise ToolError("no")
        return "yes"

    @tool
    def look(self) -> str:
        """Look."""
        return "apples"

    @hook(blocking="process")
    def verify(self, task, episode):
        return 0.5


class Buyer(Engine):
    model = "buyer"

    async def respond(self, request, *, episode_id=""):
        if episode_id.startswith("1") and len(request["input"]) > 1:
            raise EngineError("gone")
        calls = [
            {"type": "function_call", "call_id": name, "name": name, "arguments": arguments}
            for name, arguments in (("buy", '{"fruit": "pear"}'), ("look", "{}"))
        ]
        message = {"type": "message", "role": "assistant", "content": "Bought."}
        return {
            "id": "r", "object": "response", "created_at": 0, "model": "buyer-1", "status": "completed",
            "output": [message] if len(request["input"]) > 1 else calls,
            "usage": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
        }  # fmt: skip


@pytest.fixture
def shop():
    gym.register("mine/Shop-v0", entry_point=Shop)
    yield
    del gym.registry["mine/Shop-v0"]


def test_an_episode_is_a_tree_of_turns_tools_and_verify(collector, shop):
    url, spans = collector
    sampling = {"temperature": 0.5, "max_output_tokens": 9}
    records = collect(
        "mine/Shop-v0", Buyer(), episodes=2, sampling=sampling, retries=0, tracing=Tracing(url), concurrency=1
    )
    assert [record["outcome"] for record in records] == ["scored", "masked"]
    assert Counter(span.name for span in spans) == {"episode": 2, "turn": 4, "tool": 4, "verify": 1}
    by_id = {span.span_id: span for span in spans}
    good, bad = sorted((span for span in spans if span.name == "episode"), key=lambda span: span.start_time_unix_nano)
    assert attributes(good) == {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "mine/Shop-v0",
        "gen_ai.conversation.id": attributes(good)["gen_ai.conversation.id"], "gen_ai.evaluation.score.value": 0.5,
        "gym_llm.env_id": "mine/Shop-v0", "gym_llm.outcome": "scored", "gym_llm.reward": 0.5, "gym_llm.task_index": 0,
        "gym_llm.repeat_index": 0, "gym_llm.tool_errors": 1, "gym_llm.turns": 2,
    }  # fmt: skip
    assert bad.status.code == Status.STATUS_CODE_ERROR and attributes(bad)["gym_llm.error_phase"] == "engine"
    mine = [span for span in spans if span.trace_id == good.trace_id]
    assert Counter(span.name for span in mine) == {"episode": 1, "turn": 2, "tool": 2, "verify": 1}
    turns = sorted((span for span in mine if span.name == "turn"), key=lambda span: span.start_time_unix_nano)
    assert all(by_id[turn.parent_span_id] is good for turn in turns)
    first = attributes(turns[0])
    assert first["gen_ai.request.temperature"] == 0.5 and first["gen_ai.request.max_tokens"] == 9
    assert (first["gen_ai.usage.input_tokens"], first["gen_ai.response.model"]) == (7, "buyer-1")
    tools = [span for span in mine if span.name == "tool"]
    assert {attributes(span)["gen_ai.tool.name"] for span in tools} == {"buy", "look"}
    assert {span.parent_span_id for span in tools} == {turns[0].span_id}
    (verify,) = (span for span in mine if span.name == "verify")
    assert verify.parent_span_id == turns[1].span_id
    for span in mine:
        above = by_id.get(span.parent_span_id)
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        assert above is None or above.start_time_unix_nano <= span.start_time_unix_nano
        assert above is None or span.end_time_unix_nano <= above.end_time_unix_nano


def test_the_command_line_traces_workers_and_blends(collector, tmp_path, monkeypatch):
    url, spans = collector
    monkeypatch.chdir(tmp_path)
    command = ["rollout", "gym_llm/Weather-v0", "--engine", "random", "--episodes", "20", "--quiet", "--otel", url]
    assert main([*command, "--workers", "2"]) == 0
    names = Counter(span.name for span in spans)
    assert names["episode"] == 20 and names["verify"] == 20 and names["turn"] >= 20


def test_a_verifier_that_has_others_play_is_traced_through_them(collector):
    url, spans = collector
    task = {"responses_create_params": {"input": "Weather in Rome?"}, "env_id": "gym_llm/Weather-v0"}
    collect("gym_llm/Mixed-v0", "random", tasks=[task], tracing=Tracing(url))
    assert {"episode", "turn", "verify"} <= {span.name for span in spans}


def test_a_collector_that_is_not_there_costs_no_episode(caplog):
    records = collect("gym_llm/Weather-v0", "random", episodes=2, tracing=Tracing("http://127.0.0.1:1"))
    assert [record["outcome"] != "masked" for record in records] == [True, True]


@pytest.mark.parametrize("endpoint", ["localhost:4318", "", "grpc://a"])
def test_what_is_no_address_is_refused(endpoint):
    with pytest.raises(UsageError, match="collector's address"):
        Tracing(endpoint)
