"""Plans of capacity: the fit to recorded times, and simulated runs whose figures are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym_llm.cli import main
from gym_llm.errors import DataError
from gym_llm.evaluation.capacity import forecast
from gym_llm.evaluation.recorded_load import EngineSpeed, RecordedEpisode, Recording, fit_speed, read_recording


def recording(count: int, *turns: tuple[float, float], concurrency: int = 1, repeats: int = 1) -> Recording:
    episodes = [RecordedEpisode((n // repeats, n % repeats), 0.0, turns, 100, 0, 10) for n in range(count)]
    return Recording(episodes, concurrency)


def test_answers_that_do_not_wait_for_each_other_scale_with_the_concurrency() -> None:
    flat = EngineSpeed(0.0)
    for concurrency in (1, 4, 16):
        figures = forecast(recording(64, (1.0, 0.5), (1.0, 0.0)), flat, concurrency=concurrency)
        assert figures.seconds == pytest.approx(64 / concurrency * 2.5)
        assert figures.episodes_per_second == pytest.approx(concurrency / 2.5)
        assert (figures.engine_seconds, figures.slowdown) == (pytest.approx(2.0), pytest.approx(1.0))
        assert figures.busiest == concurrency


def test_a_server_that_takes_turns_gains_nothing_but_two_servers_do() -> None:
    serial = EngineSpeed(1.0)  # n requests take n times as long
    alone = forecast(recording(32, (1.0, 0.0)), serial, concurrency=1)
    crowded = forecast(recording(32, (1.0, 0.0)), serial, concurrency=8)
    two = forecast(recording(32, (1.0, 0.0)), serial, concurrency=8, engines=2, routing="least")
    assert alone.seconds == crowded.seconds == pytest.approx(32.0)
    assert two.seconds == pytest.approx(16.0)
    assert crowded.slowdown == pytest.approx(8.0)


def test_the_environments_time_at_the_end_counts() -> None:
    assert forecast(recording(1, (1.0, 5.0)), EngineSpeed(0.0), concurrency=4).seconds == pytest.approx(6.0)


def test_a_run_takes_at_least_the_cpu_time_of_its_episodes() -> None:
    episodes = recording(100, (1.0, 0.0)).episodes
    busy = Recording(episodes, concurrency=4, cpu_seconds=0.25)
    for concurrency, nodes, seconds in ((2, 1, 50.0), (50, 1, 25.0), (50, 5, 5.0), (50, 100, 2.0)):
        figures = forecast(busy, EngineSpeed(0.0), concurrency=concurrency, nodes=nodes)
        assert figures.seconds == pytest.approx(seconds)
        assert figures.episodes_per_second == pytest.approx(100 / seconds)


def test_random_routing_is_slower_than_the_least_loaded_server() -> None:
    slow = EngineSpeed(1.0)
    work: Any = {"concurrency": 16, "engines": 4, "episodes": 400}
    least = forecast(recording(100, (1.0, 0.0)), slow, routing="least", **work)
    chance = forecast(recording(100, (1.0, 0.0)), slow, routing="random", **work)
    assert chance.seconds > 1.05 * least.seconds
    group = forecast(recording(100, (1.0, 0.0)), slow, routing="group", group_size=4, **work)
    assert group.seconds >= 0.99 * least.seconds


@pytest.mark.parametrize("slope", [0.0, 0.1, 1.0])
def test_the_slope_is_found_again_in_two_recordings(slope: float) -> None:
    recordings = []
    for concurrency in (4, 16):
        seconds = 1.0 * (1.0 + slope * (concurrency - 1))
        recordings.append(recording(64, (seconds, 0.0), concurrency=concurrency))
    assert fit_speed(recordings).slope == pytest.approx(slope, rel=0.05, abs=0.01)


def test_files_are_read_and_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "a.jsonl")
    argv = ["rollout", "gym_llm/Arithmetic-v0", "--engine", "constant:4", "--limit", "8", "--repeats", "2"]
    assert main([*argv, "--concurrency", "4", "--output", file, "--quiet"]) in (0, 1)
    recorded = read_recording(file)
    assert (len(recorded.episodes), recorded.concurrency) == (16, 4)
    seconds = json.loads(Path(tmp_path / "a.summary.json").read_text())["seconds"]
    assert 0.0 < recorded.cpu_seconds * 16 <= seconds + 0.5
    assert main(["plan", file, "--concurrency", "2,8", "--engines", "1,2", "--engine-price", "3600", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["forecasts"]
    assert [(row["engines"], row["concurrency"]) for row in rows] == [(1, 2), (1, 8), (2, 2), (2, 8)]
    assert all(row["dollars"] == pytest.approx(row["seconds"] * row["engines"]) for row in rows)
    assert main(["plan", file, "--node-concurrency", "1", "--nodes", "2"]) == 0
    assert "episodes/s" in capsys.readouterr().out
    assert main(["plan", file, "--routing", "best"]) == 2
    assert "routing is one of" in capsys.readouterr().err
    Path(tmp_path / "a.summary.json").unlink()
    with pytest.raises(DataError, match="concurrency"):
        read_recording(file)
