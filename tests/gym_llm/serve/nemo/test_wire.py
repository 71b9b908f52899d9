"""NeMo Gym's resources server: sessions, tools, scores."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import gymnasium as gym
from nemo_client import Client, served
from testing import Item, function_call, in_loop, message_item, response, row

from gym_llm import VerifierEnv, tool
from gym_llm.types import Verdict

WEATHER = {**row("What is the weather in Paris?"), "expected_city": "Paris"}
MATH = {**row("2 + 2?"), "expected_answer": "4"}


class Guess(VerifierEnv):
    """The user says warmer or colder; tools reward, and fail."""

    default_max_turns = 3

    def setup(self, task: Any) -> dict[str, Any]:
        if getattr(task, "breaks", None) == "setup":
            raise KeyError("a secret of the author's")
        return {"asked": 0}

    def opening(self, task: Any, state: Any) -> str:
        return "Guess a number."

    def user_turn(self, task: Any, episode: Any) -> str | None:
        return None if episode.answer == "7" else "Colder."

    @tool
    async def ask(self, state: dict[str, Any]) -> str:
        """Ask for a hint."""
        await asyncio.sleep(0)
        state["asked"] += 1
        assert self.episode is not None
        self.episode.step_reward += 0.25
        return "Odd."

    @tool
    def fail(self) -> str:
        """Fail."""
        raise KeyError("a secret of the author's")

    def verify(self, task: Any, episode: Any) -> Verdict:
        if episode.answer == "raise":
            raise KeyError("a secret of the author's")
        return Verdict(
            float(episode.answer == "7"),
            {"asked": episode.state["asked"], "said": [item.get("role") for item in episode.items]},
            {"right": float(episode.answer == "7"), "polite": 0.0},
        )


class Graded(VerifierEnv):
    """Grades the calls themselves."""

    executes_tools = False

    @tool
    def add(self, a: int, b: int) -> int:
        """Add."""
        raise AssertionError("it is not carried out")

    def verify(self, task: Any, episode: Any) -> float:
        return float([call["name"] for call in episode.function_calls()] == ["add"])


GUESS, GRADED = "test/NemoGuess-v0", "test/NemoGraded-v0"
gym.register(GUESS, Guess, disable_env_checker=True)
gym.register(GRADED, Graded, disable_env_checker=True)


def called(name: str, arguments: Any, output: str, call_id: str = "call_1") -> list[Item]:
    """A call and its output, as an agent writes them down."""
    return [
        function_call(name, arguments, call_id),
        {"type": "function_call_output", "call_id": call_id, "output": output},
    ]


@in_loop
async def test_an_agent_seeds_a_session_calls_a_tool_and_has_it_scored():
    async with served() as client:
        assert await client.post("/seed_session", WEATHER) == {}
        answer = await client.post("/get_weather", {"city": "Paris"})
        assert answer == {"city": "Paris", "weather_description": "The weather in Paris is cold."}
        said = [*called("get_weather", {"city": "Paris"}, json.dumps(answer)), message_item("Cold.")]
        verdict = await client.verify(WEATHER, *said)
        assert (verdict["reward"], verdict["mask_sample"], verdict["truncated"], verdict["turn"]) == (
            1.0,
            False,
            False,
            2,
        )
        assert verdict["expected_city"] == "Paris"
        assert verdict["response"] == response(*said)
        assert verdict["responses_create_params"] == WEATHER["responses_create_params"]
        assert len(client.sessions) == 0


@in_loop
async def test_a_tool_that_was_not_called_here_counts_for_nothing():
    async with served() as client:
        await client.post("/seed_session", WEATHER)
        verdict = await client.verify(WEATHER, *called("get_weather", {"city": "Paris"}, "{}"), message_item("Cold."))
        assert (verdict["reward"], verdict["mask_sample"]) == (0.0, False)


@in_loop
async def test_the_model_is_told_of_unknown_tools_and_wrong_arguments_as_the_environment_tells_it():
    async with served() as client:
        await client.post("/seed_session", WEATHER)
        assert "no tool named 'get/wether'" in (await client.post("/get/wether", {}))["error"]
        assert "city: Field required" in (await client.post("/get_weather", {}))["error"]
        assert "should be a JSON object" in (await client.post("/get_weather", ["Paris"]))["error"]
        not_json = await client.http.post("/get_weather", data=b'{"city": \xff')
        assert "not valid JSON" in (await not_json.json())["error"]
        private = await client.post("/setup", {})
        assert "no tool named 'setup'" in private["error"]
        assert (await client.verify(WEATHER, message_item("?")))["tool_errors"] == 5


@in_loop
async def test_every_answer_of_a_session_has_its_cookie_because_agents_keep_the_last():
    async with served(keeps_cookies=False) as client:
        cookies: Any = None
        bodies = [
            ("/seed_session", WEATHER),
            ("/get_weather", {"city": "Paris"}),
            ("/nothing", {}),
            ("/verify", {**WEATHER, "response": response(message_item("Cold."))}),
        ]
        values = set()
        for path, body in bodies:
            async with client.http.post(path, json=body, cookies=cookies) as reply:
                assert reply.status == 200
                verdict = await reply.text()
                cookies = reply.cookies
                values |= {morsel.value for name, morsel in cookies.items() if name == "Weather___Weather-v0"}
        assert len(values) == 1
        assert json.loads(verdict)["reward"] == 1.0


@in_loop
async def test_two_clients_never_see_each_others_session():
    async with served() as one, aiohttp.ClientSession(one.http._base_url) as without:
        await one.post("/seed_session", WEATHER)
        other = Client(without, one.sessions)
        assert "no session" in (await other.post("/get_weather", {"city": "Paris"}, 404))["detail"]
        forged = {"Weather___Weather-v0": "abc.AAAAAAAAAAAAAAAAAAAAAAAA"}
        await other.post("/get_weather", {"city": "Paris"}, 404, cookies=forged)
        verdict = await other.verify(WEATHER, *called("get_weather", {"city": "Paris"}, "{}"), message_item("?"))
        assert (verdict["mask_sample"], verdict["failure_kind"], verdict["reward"]) == (True, "session_lost", 0.0)
        assert (await other.verify(WEATHER, message_item("I do not know.")))["mask_sample"] is False
        assert (await one.verify(WEATHER, message_item("?")))["mask_sample"] is False


@in_loop
async def test_a_lost_verdict_can_be_asked_for_again_and_only_that():
    async with served() as client:
        await client.post("/seed_session", WEATHER)
        await client.post("/get_weather", {"city": "Paris"})
        first, again = await asyncio.gather(
            client.verify(WEATHER, message_item("Cold.")), client.verify(WEATHER, message_item("Cold."))
        )
        assert first == again == await client.verify(WEATHER, message_item("Cold."))
        assert first["reward"] == 1.0
        other = await client.verify(WEATHER, *called("get_weather", {"city": "Paris"}, "{}"), message_item("Warm."))
        assert (other["mask_sample"], other["failure_kind"]) == (True, "session_expired")
        assert "Cold" not in other["failure_reason"]


@in_loop
async def test_without_a_session_a_verifier_that_needs_none_scores_the_items():
    async with served("gym_llm/MathVerify-v0", keeps_cookies=False) as client:
        assert (await client.verify(MATH, message_item("\\boxed{4}")))["reward"] == 1.0
        wrong = await client.verify(MATH, message_item("\\boxed{5}"))
        assert (wrong["reward"], wrong["mask_sample"]) == (0.0, False)
        assert await (await client.http.get("/reverify_mode")).json() == "stateless"
        assert len(client.sessions) == 0


@in_loop
async def test_an_answer_that_is_verified_again_says_nothing_of_the_first_time():
    async with served("gym_llm/MathVerify-v0", keeps_cookies=False) as client:
        stale = {"truncated": True, "failure_kind": "verifier_error", "reward": 0.5, "mask_sample": True}
        again = await client.verify({**MATH, **stale}, message_item("\\boxed{4}"))
        assert (again["reward"], again["mask_sample"], again["truncated"]) == (1.0, False, False)
        assert "failure_kind" not in again


@in_loop
async def test_a_session_is_scored_with_its_own_task_only():
    async with served() as client:
        await client.post("/seed_session", WEATHER)
        await client.post("/get_weather", {"city": "Oslo"})
        said = [*called("get_weather", {"city": "Oslo"}, "{}"), message_item("Cold.")]
        other = await client.verify({**WEATHER, "expected_city": "Oslo"}, *said)
        assert (other["mask_sample"], other["failure_kind"]) == (True, "session_lost")
        assert "another task: `expected_city`" in other["failure_reason"]


@in_loop
async def test_what_agents_add_to_a_row_is_no_other_task():
    async with served() as client:
        await client.post("/seed_session", {**WEATHER, "_ng_attempt": 0})
        await client.post("/get_weather", {"city": "Paris"})
        row_again = {**WEATHER, "_ng_attempt": 1, "agent_ref": {"name": "x"}}
        params = {**WEATHER["responses_create_params"], "temperature": None, "tools": []}
        verdict = await client.verify({**row_again, "responses_create_params": params}, message_item("Cold."))
        assert (verdict["reward"], verdict["agent_ref"]) == (1.0, {"name": "x"})


@in_loop
async def test_seeding_again_begins_again():
    async with served() as client:
        await client.post("/seed_session", WEATHER)
        await client.post("/get_weather", {"city": "Paris"})
        await client.post("/seed_session", WEATHER)
        assert len(client.sessions) == 1
        assert (await client.verify(WEATHER, message_item("Cold.")))["reward"] == 0.0
        await client.post("/seed_session", WEATHER)
        await client.post("/get_weather", {"city": "Paris"})
        assert (await client.verify(WEATHER, message_item("Cold.")))["reward"] == 1.0


@in_loop
async def test_a_wrong_row_or_response_is_refused_and_the_session_stays():
    async with served() as client:
        await client.post("/seed_session", WEATHER)
        await client.post("/get_weather", {"city": "Paris"})
        for body in ([], 3, {}, {"responses_create_params": 1}, {"responses_create_params": {"input": 7}}):
            assert (await client.post("/seed_session", body, 400))["detail"]
        outputs: list[Any] = [
            None,
            [1],
            [{"type": "message", "role": "assistant", "content": 3}],
            [{"type": "function_call"}],
            [{"type": "function_call_output", "output": 3}],
            [{"type": "message", "role": "user", "content": {"a": 1}}],
            [{"type": [], "role": {}}],
        ]
        for output in outputs:
            body = {**WEATHER, "response": {"output": output}}
            assert (await client.post("/verify", body, 400))["detail"]
        await client.post("/verify", WEATHER, 400)
        assert (await client.verify(WEATHER, message_item("Cold.")))["reward"] == 1.0


@in_loop
async def test_the_users_turns_and_rewards_of_turns_count():
    async with served(GUESS) as client:
        await client.post("/seed_session", row())
        assert await client.post("/ask", {}) == "Odd."
        said = [*called("ask", {}, "Odd."), message_item("7")]
        verdict = await client.verify(row(), *said)
        assert (verdict["reward"], verdict["truncated"], verdict["asked"]) == (1.25, False, 1)
        assert verdict["reward_components"] == {"right": 1.0, "polite": 0.0}
        assert verdict["said"] == ["user", None, None, "assistant"]


@in_loop
async def test_an_agent_that_stops_before_the_end_is_truncated_and_scored():
    async with served(GUESS) as client:
        await client.post("/seed_session", row())
        stopped = await client.verify(row(), message_item("5"))
        assert (stopped["reward"], stopped["truncated"], stopped["turn"]) == (0.0, True, 1)
        await client.post("/seed_session", row())
        await client.post("/ask", {})
        in_a_call = await client.verify(row(), *called("ask", {}, "Odd."))
        assert (in_a_call["reward"], in_a_call["truncated"], in_a_call["turn"]) == (0.25, True, 1)
        await client.post("/seed_session", row())
        cut_off = await client.verify(row(), message_item("7"), status="incomplete")
        assert (cut_off["reward"], cut_off["truncated"]) == (1.0, True)
        await client.post("/seed_session", row())
        silent = await client.verify(row())
        assert (silent["reward"], silent["turn"]) == (0.0, 1)


@in_loop
async def test_turns_beyond_the_environments_own_limit_are_left_out():
    async with served(GUESS) as client:
        await client.post("/seed_session", row())
        said = [item for n in range(3) for item in called("ask", {}, "Odd.", f"call_{n}")]
        verdict = await client.verify(row(), *said, message_item("7"))
        assert (verdict["reward"], verdict["truncated"], verdict["turn"]) == (0.0, True, 3)


@in_loop
async def test_what_tools_did_beyond_that_limit_is_undone():
    async with served(env_kwargs={"max_turns": 2}) as client:
        await client.post("/seed_session", WEATHER)
        said = []
        for number, city in enumerate(("Oslo", "Rome", "Paris")):
            await client.post("/get_weather", {"city": city})
            said += called("get_weather", {"city": city}, "{}", f"call_{number}")
        verdict = await client.verify(WEATHER, *said, message_item("Cold."))
        assert (verdict["reward"], verdict["truncated"], verdict["turn"]) == (0.0, True, 2)


@in_loop
async def test_where_the_calls_are_graded_the_episode_ends_with_them():
    async with served(GRADED) as client:
        await client.post("/seed_session", row())
        told = await client.post("/add", {"a": 1, "b": 2})
        assert "graded" in told["error"]
        said = [*called("add", {"a": 1, "b": 2}, json.dumps(told)), *called("sub", {}, "?"), message_item("3")]
        verdict = await client.verify(row(), *said)
        assert (verdict["reward"], verdict["truncated"], verdict["turn"]) == (1.0, False, 1)


@in_loop
async def test_names_by_which_mcp_clients_call_tools_are_the_tools_own():
    async with served(GRADED) as client:
        await client.post("/seed_session", row())
        said = [function_call("mcp__NemoGraded-v0__add", {})]
        verdict = await client.verify(row(), *said)
        assert verdict["reward"] == 1.0
        assert verdict["response"]["output"] == said


@in_loop
async def test_a_fault_of_the_environments_masks_the_episode_and_is_not_told_to_the_model():
    async with served(GUESS) as client:
        await client.post("/seed_session", row())
        told = await client.post("/fail", {}, 500)
        assert "secret" not in json.dumps(told)
        verdict = await client.verify(row(), message_item("7"))
        assert (verdict["reward"], verdict["mask_sample"], verdict["failure_kind"]) == (0.0, True, "verifier_error")
        await client.post("/seed_session", row())
        verdict = await client.verify(row(), message_item("raise"))
        assert (verdict["mask_sample"], verdict["failure_kind"]) == (True, "verifier_error")
        failed = await client.post("/seed_session", {**row(), "breaks": "setup"}, 500)
        assert failed["failure_kind"] == "verifier_error"
        assert client.sessions.counts["masked"] == 3


@in_loop
async def test_fields_of_the_row_stay_and_an_earlier_verdict_does_not():
    async with served() as client:
        old = {"reward": 1.0, "mask_sample": True, "failure_kind": "cancelled", "failure_reason": "?", "turn": "mine"}
        await client.post("/seed_session", {**WEATHER, **old})
        verdict = await client.verify({**WEATHER, **old}, message_item("?"))
        assert (verdict["reward"], verdict["mask_sample"], verdict["turn"]) == (0.0, False, "mine")
        assert "failure_kind" not in verdict


@in_loop
async def test_sessions_are_capped():
    async with served(capacity=1, keeps_cookies=False) as client:
        await client.post("/seed_session", WEATHER)
        assert "try again later" in (await client.post("/seed_session", WEATHER, 503))["detail"]


@in_loop
async def test_a_session_is_closed_by_its_cookie():
    async with served() as client:
        await client.post("/seed_session", WEATHER)
        assert await client.post("/close_session", {}) == {}
        assert len(client.sessions) == 0
        assert await client.post("/close", {}) == {}


@in_loop
async def test_it_says_that_it_lives_and_whether_it_needs_sessions():
    async with served() as client:
        for path in ("/", "/livez", "/readyz", "/healthz"):
            assert await (await client.http.get(path)).json() == {"status": "ok"}
        assert await (await client.http.get("/reverify_mode")).json() == "unknown"
        paths = (await (await client.http.get("/openapi.json")).json())["paths"]
        expected = {"/seed_session", "/verify", "/close_session", "/aggregate_metrics", "/reverify_mode"}
        assert {*expected, "/reset", "/step", "/close", "/{tool}", "/Weather-v0/verify"} <= paths.keys()


@in_loop
async def test_the_sessions_tools_can_be_called_over_mcp():
    async with served(protocols=("nemo", "mcp")) as client:
        mcp = (await client.post("/seed_session", WEATHER))["mcp"]
        assert (mcp["server_name"], mcp["url_path"], mcp["transport"]) == ("Weather-v0", "/mcp", "http")
        assert list(mcp["headers"]) == ["X-NeMo-Gym-Session-Token"]
        headers = {**mcp["headers"], "Accept": "application/json, text/event-stream"}

        async def ask(method: str, status: int = 200, headers: Any = headers, **params: Any) -> Any:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return await client.post(mcp["url_path"], body, status, headers=headers)

        listed = await ask("tools/list")
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["get_weather"]
        called_over_mcp = await ask("tools/call", name="get_weather", arguments={"city": "Paris"})
        assert "cold" in called_over_mcp["result"]["content"][0]["text"]
        forged = {**headers, "X-NeMo-Gym-Session-Token": "abc"}
        await ask("tools/call", 404, forged, name="get_weather", arguments={"city": "Paris"})
        said = [*called("mcp__Weather-v0__get_weather", {"city": "Paris"}, "{}"), message_item("Cold.")]
        verdict = await client.verify(WEATHER, *said)
        assert (verdict["reward"], verdict["turn"]) == (1.0, 2)
        ended = await ask("tools/call", 404, name="get_weather", arguments={"city": "Paris"})
        assert "error" in ended
