"""Agents of four frameworks play an environment, and not a token of what the model said for them is lost."""

import pytest
from peers import in_peer
from testing import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("example", "branches"),
    [
        ("openai_agents_sdk", 6),
        ("langgraph_agent", 6),
        ("pydantic_ai_agent", 6),
        ("smolagents_agent", 12),  # it tells the model of its calls in other words than it made them
    ],
)
def test_an_example_plays_with_tools_and_every_token_is_kept(example, branches):
    agent = f"{ROOT}/examples/agents/{example}.py:agent"
    assert in_peer("agents", "agents.py", agent, "append") == {"episodes": 6, "calls": 12, "branches": branches}


@pytest.mark.parametrize("agent", ["tool", "native", "smolagents"])
def test_agents_that_force_calls_or_a_schema_play_with_a_model_of_token_ids(agent):
    """Typed output of pydantic-ai, by a tool and by a schema, and smolagents without an option, which forces calls."""
    played = in_peer("agents", "forced_agents.py", agent)
    assert played["episodes"] == 2 and played["forced"]
    assert (played["reports"] > 0) == (agent != "smolagents")
