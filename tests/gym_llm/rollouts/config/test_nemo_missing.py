"""What NeMo Gym has (commit 07d6b0d) is mapped, or named as missing, with a reason, on the page on migration."""

from __future__ import annotations

import re

from testing import ROOT

from gym_llm.rollouts.config.mapped import Server
from gym_llm.rollouts.config.nemo_agents import missing_agent
from gym_llm.rollouts.config.nemo_gym import env_of_server

SERVERS = [
    "aalcr",
    "abstention",
    "arc_agi",
    "arena_judge",
    "asr_with_pc",
    "aviary",
    "bbq",
    "bigcodebench",
    "bird_sql",
    "blackjack",
    "browsecomp_advanced_harness",
    "bunsenbench_chemistry_mcq",
    "calendar",
    "circle_click",
    "circle_count",
    "citation_if",
    "code_fim",
    "code_gen",
    "competitive_coding_challenges",
    "conversational_tool_use_simulation",
    "critpt",
    "cvdp",
    "deepswe",
    "equivalence_llm_judge",
    "equivalence_rule",
    "ether0",
    "evalplus",
    "example_mcp_weather",
    "example_multi_step",
    "example_multi_turn_gymnasium",
    "example_session_state_mgmt",
    "example_single_tool_call",
    "example_tool_call_multireward",
    "finance_agent_v2",
    "finance_sec_search",
    "format_verification",
    "frontierscience_judge",
    "gdpval",
    "genrm_compare",
    "google_search",
    "gpqa_diamond",
    "graphwalks",
    "grl_sokoban",
    "grl_tetris",
    "gui_coordinate",
    "gymnasium",
    "hotpotqa_qa",
    "ifbench",
    "iheval",
    "image_tools",
    "imo_gradingbench",
    "imo_proofbench_judge",
    "indirect_prompt_injection",
    "instruction_following",
    "inverse_if",
    "jailbreak_detection",
    "labbench2_vlm",
    "lc_niah",
    "legal_agent_bench",
    "litmus_agent",
    "longmemeval",
    "longmt_eval",
    "math_advanced_calculations",
    "math_formal_lean",
    "math_proof_judgement",
    "math_with_autograder",
    "math_with_code",
    "math_with_judge",
    "mcqa",
    "mrcr",
    "multichallenge",
    "newton_bench",
    "ns_tools",
    "nvarc",
    "omniscience",
    "openair_congestion",
    "openenv",
    "over_refusal_detection",
    "physics_judge",
    "polymath",
    "proof_genselect",
    "proof_judge",
    "proof_verification",
    "ragtruth",
    "reasoning_gym",
    "rolemrc",
    "ruler",
    "ruler2",
    "scicode",
    "simpleqa",
    "single_step_tool_use_with_argument_comparison",
    "spartqa",
    "speed_bench",
    "spider2_lite",
    "string_match",
    "structeval",
    "structured_outputs",
    "swe_pivot",
    "swebench",
    "swerl_gen",
    "swerl_llm_judge",
    "tales",
    "tavily_search",
    "terminal_multi_harness",
    "terminus_judge",
    "text_to_sql",
    "toolsandbox",
    "ugphysics_judge",
    "verifif",
    "vlm_eval_kit",
    "wmt_translation",
    "workplace_assistant",
    "xlam_fc",
    "xstest",
]

AGENTS = [
    "anyswe_agent",
    "anyterminal_agent",
    "aviary_agent",
    "browsecomp_agent",
    "claude_code_agent",
    "cline_agent",
    "codex_agent",
    "critpt_agent",
    "cvdp_agent",
    "finance_agent",
    "gymnasium_agent",
    "harbor_agent",
    "hermes_agent",
    "image_tools_agent",
    "kilocode_agent",
    "labbench2_vlm_agent",
    "langgraph_agent",
    "mini_swe_agent",
    "mini_swe_agent_2",
    "non_executing_simple_agent",
    "openclaw_agent",
    "opencode_agent",
    "opencode_sandboxed_agent",
    "osworld_agent",
    "pi_agent",
    "pinchbench",
    "prime_agent",
    "proof_refinement_agent",
    "remote_agent",
    "scicode_agent",
    "simple_agent",
    "speed_bench_agent",
    "stirrup_agent",
    "swe_agents",
    "tau2",
    "tool_simulation_agent",
    "toolsandbox_agent",
    "vcqa_agent",
    "verifiers_agent",
    "conversational_tool_use/simulation",
]

PAGE = (ROOT / "docs" / "how-to" / "from-nemo-gym.md").read_text("utf-8")


def rows() -> dict[str, str]:
    """The reasons of the table, by server."""
    table = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|$", PAGE.partition("## Missing")[2], re.MULTILINE)
    return {name: reason for names, reason in table for name in re.findall(r"`(\w+)`", names)}


def test_a_server_has_an_environment_or_a_reason_and_not_both() -> None:
    assert len(SERVERS) == 114 and PAGE.count("114 resources servers") == 1
    missing = {name for name in SERVERS if env_of_server(name) is None}
    assert missing == set(rows())
    assert all(len(reason) > 4 for reason in rows().values())


def test_an_agent_is_played_or_named() -> None:
    for name in AGENTS:
        agent = Server("a", "responses_api_agents", name, {"resources_server": "s"})
        is_missing = missing_agent(agent) is not None
        assert f"`{name}`" in PAGE
        if is_missing:
            assert f"there is no {name};" in str(missing_agent(agent))
