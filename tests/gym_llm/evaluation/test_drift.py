"""Drift: reading rows of several formats, measures, other weights that are named, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gym_llm.cli import main
from gym_llm.engines.scores import Scores
from gym_llm.errors import DataError
from gym_llm.evaluation.drift.drift_row import DriftRow
from gym_llm.evaluation.drift.hypotheses import expected, loss, places
from gym_llm.evaluation.drift.measures import measures
from gym_llm.evaluation.drift.recompute import sampled_tokens
from gym_llm.evaluation.drift.rows import read_rows

PROMPT, SAMPLED, LOG_PROBS = [1016, 662, 198], [40, 744, 1017], [-0.5, -0.25, -0.125]


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def only_row(path: Path) -> Any:
    (row,) = read_rows(path)
    return row


def test_nemo_gyms_rollouts_are_read_from_their_items(tmp_path: Path) -> None:
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "hi", "annotations": []}],
        "prompt_token_ids": PROMPT,
        "generation_token_ids": SAMPLED,
        "generation_log_probs": LOG_PROBS,
    }
    params = {"input": [{"role": "user", "content": "Hi"}], "temperature": 0.7, "top_p": 0.9}
    line = {"_ng_task_index": 3, "_ng_rollout_index": 1, "reward": 1.0, "responses_create_params": params}
    row = only_row(write(tmp_path / "a.jsonl", {**line, "response": {"output": [item], "status": "completed"}}))
    assert row.ids == PROMPT + SAMPLED and row.mask == [0] * 3 + [1] * 3
    assert row.log_probs == [0.0] * 3 + LOG_PROBS
    assert (row.temperature, row.top_p, row.is_complete, row.place) == (0.7, 0.9, True, "1.1")
    assert row.requests[0]["input"] == params["input"]


@pytest.mark.parametrize("name", ["env_mask", "tool_mask"])
def test_trls_rollouts_are_read(name: str, tmp_path: Path) -> None:
    mask = [1, 0, 1]
    one = {"prompt_ids": PROMPT, "completion_ids": SAMPLED, "logprobs": LOG_PROBS, name: mask}
    several = {key: [value, value] for key, value in one.items()} | {"temperature": 0.6}
    rows = read_rows(write(tmp_path / "a.jsonl", one, several))
    assert [row.mask for row in rows] == [[0] * 3 + mask] * 3
    assert rows[0].log_probs == [0.0] * 3 + [-0.5, 0.0, -0.125]
    assert [row.temperature for row in rows] == [1.0, 0.6, 0.6]
    ranked = {"prompt_ids": [PROMPT], "completion_ids": [SAMPLED], "logprobs": [[[each, -9.0] for each in LOG_PROBS]]}
    assert only_row(write(tmp_path / "b.jsonl", ranked)).log_probs == [0.0] * 3 + LOG_PROBS


def test_verifiers_episodes_are_read_path_by_path(tmp_path: Path) -> None:
    nodes = [
        {"parent": None, "message": {"role": "user"}, "token_ids": PROMPT, "mask": [False] * 3, "logprobs": []},
        {
            "parent": 0,
            "sampled": True,
            "message": {"role": "assistant"},
            "token_ids": [198, *SAMPLED],
            "mask": [False, True, True, True],
            "logprobs": LOG_PROBS,
        },
        {"parent": 1, "message": {"role": "tool"}, "token_ids": [5, 6], "mask": [False] * 2},
        {"parent": 0, "sampled": True, "message": {}, "token_ids": [7], "mask": [True], "logprobs": [-1.0]},
    ]
    rows = read_rows(write(tmp_path / "a.jsonl", {"traces": [{"nodes": nodes, "sampling": {"temperature": 0.5}}]}))
    assert [row.ids for row in rows] == [[*PROMPT, 198, *SAMPLED, 5, 6], [*PROMPT, 7]]
    assert rows[0].log_probs == [0.0] * 4 + LOG_PROBS + [0.0] * 2 and rows[0].mask == [0] * 4 + [1] * 3 + [0] * 2
    assert {row.temperature for row in rows} == {0.5}
    tokens = {"prompt_ids": PROMPT, "completion_ids": SAMPLED, "completion_logprobs": LOG_PROBS}
    early = {"prompt": [], "completion": [], "reward": 1.0, "trajectory": [{"tokens": tokens}, {"tokens": None}]}
    assert only_row(write(tmp_path / "b.jsonl", early)).ids == PROMPT + SAMPLED


TRL = {"prompt_ids": PROMPT, "completion_ids": SAMPLED}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ({"reward": 1.0}, "rollout_id"),
        ([1], "object"),
        (TRL, "logprobs"),
        ({**TRL, "logprobs": [-0.5]}, "log probabilities"),
        ({**TRL, "logprobs": ["x", 0, 0]}, "column"),
        ({**TRL, "completion_ids": [-1, 2, 3], "logprobs": LOG_PROBS}, "whole numbers"),
        ({**TRL, "logprobs": [0.0, 0.0, 0.0]}, "no log probabilities"),
        ({**TRL, "completion_ids": [], "logprobs": []}, "no sampled"),
        ({"traces": [{"nodes": [{"parent": None, "token_ids": 5}]}]}, "column"),
    ],
)
def test_a_file_without_tokens_or_log_probabilities_is_refused(line: Any, word: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=word):
        read_rows(write(tmp_path / "a.jsonl", line))


def test_the_measures_of_known_ratios() -> None:
    found = measures(np.log([1.0, 1.0, 0.5, 0.25]))  # trainer / sampler is 1, 1, 2, 4
    assert found["kl_k1"] == pytest.approx(-np.log(8) / 4)
    assert found["kl_k3"] == pytest.approx((0 + 0 + 1 - np.log(2) + 3 - np.log(4)) / 4)
    assert found["effective_sample_size"] == pytest.approx(8**2 / (4 * 22))
    assert found["truncated"]["2"] == {"tokens": 0.25, "mass": pytest.approx(0.25)}
    assert found["truncated"]["1"] == {"tokens": 0.5, "mass": pytest.approx(0.5)}
    assert found["ratio_tails"]["1.5"] == 0.5 and found["ratio_quantiles"]["0.5"] == pytest.approx(1.5)


@pytest.fixture(scope="module")
def planted() -> Any:
    pytest.importorskip("torch")
    import planted_drift

    return planted_drift


@pytest.mark.slow
def test_a_named_checkpoint_or_adapter_is_the_one_that_sampled(planted: Any, tmp_path: Path) -> None:
    from gym_llm.evaluation.drift.drift import drift_of

    file = planted.Case(planted.records()).write(tmp_path / "a.jsonl")
    after, options = f"transformers:{planted.trained(1, 3e-4)}", {"threads": 1}
    for name, wanted in (("checkpoints", "stale weights"), ("adapters", "wrong adapter")):
        found = drift_of(file, after, options=options, **{name: [planted.ENGINE]}).summary
        assert (found["cause"], found["explained"]) == (wanted, pytest.approx(1.0, abs=0.01))
        assert planted.POCKET in found["detail"]


@pytest.mark.slow
def test_a_server_that_scores_is_an_engine(planted: Any, tmp_path: Path, capsys: Any) -> None:
    from aiohttp import web
    from hub_server import serving

    from gym_llm.engines.scoring import score_rows

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "theirs", "max_model_len": 4096}]})

    async def completions(request: web.Request) -> web.Response:
        body = await request.json()
        ids = body["prompt"]
        (scores,) = score_rows(planted.model().model, [(ids, body["prompt_logprobs"])])
        pairs = [{token: value, **dict(top)} for token, value, top in zip(ids, scores, scores.likeliest, strict=True)]
        places = [{str(token): {"logprob": value} for token, value in each.items()} for each in pairs[1:]]
        return web.json_response({"choices": [{"text": "", "prompt_logprobs": [None, *places]}]})

    application = web.Application()
    application.router.add_get("/v1/models", models)
    application.router.add_post("/v1/completions", completions)
    sound, moved = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    planted.Case(planted.records()).write(sound)
    planted.mask_right().write(moved)
    with serving(application) as url:
        asked = ["--engine", f"{url}/v1", "--tokenizer", planted.POCKET, "--limit", "6", "--json"]
        for file, cause in ((sound, None), (moved, "mask off by one")):
            assert main(["drift", str(file), *asked]) == 0
            found = json.loads(capsys.readouterr().out)
            assert (found["cause"], found["notes"]) == (cause, [])


@pytest.mark.slow
def test_another_template_is_tried_where_it_is_named(planted: Any, tmp_path: Path) -> None:
    from gym_llm.evaluation.drift.drift import drift_of

    dated = "<|im_start|>system\nToday is Friday.<|im_end|>\n"
    records = [each for each in planted.records() if "Arithmetic" in each["env_id"]]
    case = planted.template_drift(records, lambda text: dated + text)
    file = case.write(tmp_path / "a.jsonl")
    template = tmp_path / "dated.jinja"
    template.write_text(
        "{{ '" + dated.replace("\n", "\\n") + "' }}" + Path(planted.POCKET, "chat_template.jinja").read_text()
    )
    found = drift_of(file, templates=[str(template)]).summary
    assert found["cause"] == "template drift" and "dated.jinja" in found["detail"] and found["explained"] > 0.95


@pytest.mark.slow
def test_tokens_tell_how_they_were_drawn_where_log_probabilities_hide_it(planted: Any, tmp_path: Path) -> None:
    from gym_llm.evaluation.drift.drift import drift_of

    cool = planted.Case(
        planted.bare(planted.records(temperature=0.3, seed=0) + planted.records(temperature=0.3, seed=1))
    )
    for record in cool.records:
        record["responses_create_params"].pop("temperature", None)
    found = drift_of(cool.write(tmp_path / "a.jsonl")).summary
    assert found["rms"] < 1e-5 and found["cause"] in ("temperature", "top-p renormalisation")


@pytest.mark.slow
def test_the_command_prints_a_cause_draws_and_has_a_gate(planted: Any, tmp_path: Path, capsys: Any) -> None:
    records = planted.base_2().records
    for segment in planted.segments(records)[::2]:
        segment["weight_versions"] = segment["loss_mask"]
    file = str(planted.Case(records).write(tmp_path / "a.jsonl"))
    assert main(["drift", file, "--plots", str(tmp_path / "plots")]) == 0
    shown = capsys.readouterr().out
    assert "cause: log base" in shown and "effective sample size" in shown
    assert {each.name for each in (tmp_path / "plots").iterdir()} == {
        f"{name}.{ending}" for name in ("residuals", "ratios", "probabilities", "versions") for ending in ("png", "svg")
    }
    assert main(["drift", file, "--json", "--fail-on-drift", "--limit", "10"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["cause"] == "log base" and found["rows"] == 10 and set(found["by"]["version"]) == {"0", "1"}
    sound = str(planted.Case(planted.records()).write(tmp_path / "b.jsonl"))
    assert main(["drift", sound, "--fail-on-drift"]) == 0
    assert "no drift" in capsys.readouterr().out
    for wrong in (["--engine", "constant:x"], ["--engine-option", "x=1"], ["--temperature", "0"], ["--template", "no"]):
        assert main(["drift", sound, *wrong]) == 2
    assert main(["drift", str(tmp_path / "none.jsonl")]) == 2


def hypotheses_of(recorded: list[float], computed: list[float]) -> list[str]:
    """Sentences about single turns that are off by one, of many turns with these values."""
    row = DriftRow([5] * (1 + len(recorded)), [0] + [1] * len(recorded), [0.0, *recorded])
    tokens = sampled_tokens([row] * 8, [Scores(computed) for _ in range(8)])
    drift = expected(tokens).distance(tokens.recorded)
    return [
        each.detail for each in places(tokens, drift) if each.detail.startswith("In ") and loss(each.residuals) < 0.2
    ]


def test_turns_are_moved_only_if_their_values_show_it() -> None:
    values = [-0.5, -1.5, -0.2, -2.5, -0.1]
    (moved,) = hypotheses_of([*values[1:], 0.0], values)
    assert moved.startswith("In 8 turns") and "1 token after" in moved
    # Another prompt, and then certain tokens, which fit their neighbours as well.
    assert not hypotheses_of([-0.01, 0.0, 0.0, 0.0], [-2.0, 0.0, 0.0, 0.0])
