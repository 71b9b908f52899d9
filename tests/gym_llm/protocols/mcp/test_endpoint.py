"""An endpoint of MCP over real sockets, asked by clients that keep to the protocol, and by others."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from mcp_toolbox import PNG, Counters, Wire, code, stateless, talk

# -- with a handshake --------------------------------------------------------------------------------------------------


def test_a_session_lists_and_calls_its_own_tools() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        said = await wire.shake_hands()
        assert said["protocolVersion"] == "2025-11-25" and said["instructions"] == "Count."
        assert said["serverInfo"]["name"] == "gym_llm" and "tools" in said["capabilities"]
        _, listed = await wire.ask("tools/list")
        assert listed["result"] == {
            "tools": [
                {
                    "name": "add",
                    "description": "Add.",
                    "inputSchema": {"type": "object", "properties": {"by": {"type": "integer"}}},
                }
            ]
        }
        other = Wire(wire.http, wire.url)
        await other.shake_hands()
        await wire.call("add", by=5)
        answer = await wire.call("add", "two", by=1)
        assert answer["id"] == "two"
        assert answer["result"] == {
            "content": [{"type": "text", "text": "6"}],
            "isError": False,
            "structuredContent": {"count": 6},
        }
        assert (await other.call("add"))["result"]["structuredContent"] == {"count": 1}
        assert (await wire.ask("ping", 7))[1] == {"jsonrpc": "2.0", "id": 7, "result": {}}

    talk(conversation)


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2026-07-28", "2025-11-25"), ("x", "2025-11-25")],
)
def test_the_revision_is_the_clients_or_the_newest_with_handshakes(offered: str, agreed: str) -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        assert (await wire.shake_hands(offered))["protocolVersion"] == agreed
        assert (await wire.call("add"))["result"]["structuredContent"] == {"count": 1}

    talk(conversation)


def test_a_session_is_needed_and_ends_when_its_client_says_so() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        assert code(await wire.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, mcp_session_id="session-77")) == (
            404,
            -32600,
        )
        assert (await wire.http.delete(wire.url)).status == 400
        assert (await wire.http.delete(wire.url, headers={"Mcp-Session-Id": "session-77"})).status == 404
        assert (await wire.http.delete(wire.url, headers=wire.headers)).status == 204
        assert code(await wire.ask("tools/list")) == (404, -32600)
        assert (await wire.post({"jsonrpc": "2.0", "method": "notifications/initialized"}))[0] == 404
        assert (await wire.http.delete(wire.url, headers=wire.headers)).status == 404

    talk(conversation)


def test_without_sessions_no_id_is_given_and_none_is_believed() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        assert "Mcp-Session-Id" not in wire.headers
        wire.headers["Mcp-Session-Id"] = "session-77"
        assert (await wire.call("add"))["result"]["structuredContent"] == {"count": 1}
        assert counters.callers[-1].session_id is None
        gone = await wire.http.delete(wire.url, headers=wire.headers)
        assert gone.status == 405 and gone.headers["Allow"] == "POST"

    talk(conversation, sessions=False)


def test_a_get_is_answered_405_since_nothing_is_said_unasked() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        answer = await wire.http.get(wire.url, headers={"Accept": "text/event-stream"})
        assert answer.status == 405 and answer.headers["Allow"] == "POST, DELETE"
        assert (await answer.json())["error"]["code"] == -32600

    talk(conversation)


def test_batches_are_answered_in_the_revisions_that_have_them() -> None:
    ping, call = {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 2, "method": "nothing"}
    note = {"jsonrpc": "2.0", "method": "notifications/progress"}

    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands("2025-03-26")
        status, answers = await wire.post([ping, note, call, 5])
        assert status == 200 and [each["id"] for each in answers] == [1, 2, None]
        assert answers[1]["error"]["code"] == -32601 and answers[2]["error"]["code"] == -32600
        assert await wire.post([note, note]) == (202, "")
        for wrong in ([], [ping] * 65, [{**ping, "method": "initialize"}]):
            assert code(await wire.post(wrong)) == (400, -32600)
        await wire.shake_hands("2025-06-18")
        assert code(await wire.post([ping])) == (400, -32600)

    talk(conversation)


def test_many_tools_are_listed_on_several_pages() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands(tools=450)
        names: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            result = (await wire.ask("tools/list", **cursor))[1]["result"]
            names += [tool["name"] for tool in result["tools"]]
            if "nextCursor" not in result:
                break
            cursor = {"cursor": result["nextCursor"]}
        assert names == ["add", *(f"tool_{number}" for number in range(450))]
        for wrong in ("-1", "451", "9" * 50, "x", 3, "٣"):
            assert code(await wire.ask("tools/list", cursor=wrong)) == (200, -32602)

    talk(conversation)


def test_the_task_is_a_prompt() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        assert [each["name"] for each in (await wire.ask("prompts/list"))[1]["result"]["prompts"]] == ["task"]
        messages = (await wire.ask("prompts/get", name="task"))[1]["result"]["messages"]
        assert [message["content"]["text"] for message in messages] == ["Be quick.", "Count to 3."]
        assert {message["role"] for message in messages} == {"user"}
        assert code(await wire.ask("prompts/get", name="other")) == (200, -32602)

    talk(conversation)


def test_pictures_are_blocks_and_what_a_tool_says_of_an_error_is_a_result() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        picture = {"type": "image", "data": PNG, "mimeType": "image/png"}
        assert (await wire.call("show"))["result"]["content"] == [{"type": "text", "text": "see"}, picture]
        assert (await wire.call("nothing"))["result"]["isError"] is True

    talk(conversation)


def test_a_tool_that_breaks_is_an_internal_error_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        status, answer = await wire.ask("tools/call", name="break")
        assert status == 200 and answer["error"]["code"] == -32603 and "seeds" not in json.dumps(answer)

    talk(conversation)
    assert "An MCP request failed." in caplog.text


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, -32602),
        ({"name": 5}, -32602),
        ({"name": "add", "arguments": []}, -32602),
        ({"name": "add", "arguments": "x"}, -32602),
    ],
)
def test_a_call_has_a_name_and_its_arguments_are_an_object(params: dict[str, Any], expected: int) -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        await wire.shake_hands()
        assert code(await wire.ask("tools/call", **params)) == (200, expected)
        assert counters.of["session-1"].calls == []

    talk(conversation)


# -- without -----------------------------------------------------------------------------------------------------------


def test_a_stateless_request_needs_no_handshake_and_says_that_it_is_complete() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        body, headers = stateless("server/discover")
        found = (await wire.post(body, **headers))[1]["result"]
        assert found["supportedVersions"] == ["2026-07-28"] and found["instructions"] == "Count."
        body, headers = stateless("tools/list")
        listed = (await wire.post(body, **headers))[1]["result"]
        assert listed["resultType"] == "complete" and listed["cacheScope"] == "private" and listed["ttlMs"] == 0
        body, headers = stateless("tools/call", "add", arguments={"by": 2})
        result = (await wire.post(body, **headers))[1]["result"]
        assert result["resultType"] == "complete" and result["structuredContent"] == {"count": 2}
        body, headers = stateless("ping")
        assert code(await wire.post(body, **headers)) == (404, -32601)
        assert await wire.post({"jsonrpc": "2.0", "method": "notifications/x"}, **headers) == (202, "")
        assert code(await wire.post([body], **headers)) == (400, -32600)

    talk(conversation)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"mcp_method": "tools/list"}, -32020),
        ({"mcp_method": ""}, -32020),
        ({"mcp_name": "other"}, -32020),
        ({"mcp_name": "=?base64?!!?="}, -32020),
        ({"mcp_protocol_version": "2027-01-01"}, -32020),
        ({"mcp_protocol_version": None}, -32020),
        ({"mcp_method": None}, -32020),
        ({"mcp_name": None}, -32020),
        ({}, None),
        ({"mcp_name": "=?base64?" + base64.b64encode(b"add").decode() + "?="}, None),
    ],
)
def test_headers_that_disagree_with_the_body_are_refused(change: dict[str, str | None], expected: int | None) -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        body, headers = stateless("tools/call", "add")
        sent = {name: value for name, value in {**headers, **change}.items() if value is not None}
        answer = await wire.post(body, **sent)
        assert (answer[0] == 200) if expected is None else code(answer) == (400, expected)
        assert counters.of[None].count == (1 if expected is None else 0)

    talk(conversation)


def test_a_header_that_is_sent_twice_is_refused() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        body, _ = stateless("tools/call", "add")
        headers = [("Content-Type", "application/json"), ("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Name", "add")]
        twice = [*headers, ("Mcp-Method", "tools/call"), ("Mcp-Method", "tools/list")]
        async with wire.http.post(wire.url, data=json.dumps(body), headers=twice) as answer:
            assert code((answer.status, await answer.json())) == (400, -32020)

    talk(conversation)


def test_what_the_envelope_lacks_and_revisions_to_come_are_named() -> None:
    async def conversation(wire: Wire, counters: Counters) -> None:
        body, headers = stateless("tools/list")
        bare = {**body, "params": {}}
        assert code(await wire.post(bare, **headers)) == (400, -32602)
        version = "io.modelcontextprotocol/protocolVersion"
        later = {**body, "params": {"_meta": {**body["params"]["_meta"], version: "2027-01-01"}}}
        status, answer = await wire.post(later, **{**headers, "mcp_protocol_version": "2027-01-01"})
        assert (status, answer["error"]["code"]) == (400, -32022)
        assert "2026-07-28" in answer["error"]["data"]["supported"]
        status, answer = await wire.post(bare, mcp_protocol_version="1999-01-01")
        assert (status, answer["error"]["code"]) == (400, -32022)

    talk(conversation)
