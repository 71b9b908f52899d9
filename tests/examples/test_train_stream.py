"""The examples that train on a stream, and that distil: what they compute, and that they run."""

import itertools
import json

import pytest
import torch
from testing import ROOT

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "examples")
    import distill
    import train_stream

from gym_llm.trainers.shared.token_rows import TokenRow

pytestmark = pytest.mark.slow


def last_line(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_model_learns_from_its_stream_and_a_student_learns_from_the_model(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(train_stream, "GROUPS", 2)
    monkeypatch.setattr(distill, "EPISODES", 8)
    teacher = tmp_path / "teacher"
    few = ["--updates=2", "--held-out=8", "--json"]
    monkeypatch.setattr("sys.argv", ["train_stream.py", *few, "--sampler", "--target=0", f"--output={teacher}"])
    train_stream.main()
    trained = last_line(capsys)
    assert trained["counts"]["groups"] == 4 and trained["counts"]["episodes"] == 32
    assert trained["last"][0] == trained["reached"][0] == 2 and trained["last"][2] == trained["counts"]["tokens"] > 500
    assert [tested[0] for tested in trained["held_out"]] == [0, 2]
    monkeypatch.setattr("sys.argv", ["distill.py", *few, f"--teacher={teacher}", f"--output={tmp_path / 'student'}"])
    distill.main()
    distilled = last_line(capsys)
    assert all(0 <= distilled[name] <= 1 for name in ("teacher", "before", "after"))
    assert (tmp_path / "student" / "model.safetensors").is_file()


def test_in_lockstep_all_tokens_have_the_newest_version(monkeypatch):
    monkeypatch.setattr(train_stream, "GROUPS", 4)
    seen, versions = [], []

    def learn(model, optimizer, rows, advantages):
        versions.append({version for row in rows for version in set(row.weight_versions or [0])})
        seen.append(len(rows))
        optimizer.step()

    monkeypatch.setattr(train_stream, "update", learn)
    args = train_stream.parser().parse_args(["--updates=3", "--lockstep"])
    train_stream.train(args, train_stream.sums(64))
    assert all(seen) and versions[0] == {0} and versions[1] <= {0, 1} and versions[2] <= {0, 2}


def test_dynamic_updates_take_groups_until_enough_of_them_differ():
    groups = [[{"reward": reward} for reward in rewards] for rewards in ((1.0, 1.0), (0.0, 1.0), (0.0, 0.0))]
    endless = itertools.cycle(groups)
    taken = train_stream.take(endless, dynamic=True)
    assert len(taken) == 3 * train_stream.GROUPS - 1 and taken[:3] == groups
    assert len(train_stream.take(endless, dynamic=False)) == train_stream.GROUPS


def test_a_file_with_products_and_a_slow_verifier(monkeypatch, capsys):
    monkeypatch.setattr(train_stream, "GROUPS", 2)
    slow = ["--updates=2", "--held-out=8", "--sums=4", "--products=4", "--grading=0.05", "--stale=keep", "--dynamic"]
    monkeypatch.setattr("sys.argv", ["train_stream.py", *slow, "--sampler", "--target=0", "--json"])
    train_stream.main()
    assert last_line(capsys)["last"][0] == 2
    monkeypatch.setattr("sys.argv", ["train_stream.py", "--dynamic"])
    with pytest.raises(SystemExit):
        train_stream.main()
    assert "--stale keep" in capsys.readouterr().err


def test_an_update_follows_the_advantage_and_bounds_the_weight_of_old_tokens(monkeypatch):
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: None)
    row = TokenRow([5, 9, 301], [0, 0, 1], [0.0, 0.0, -50.0], [0.0] * 3, 0.0, 2)  # a ratio of far more than 2
    model, _ = train_stream.pocket()
    before = train_stream.copied(model)
    (-2.0 * 0.5 * model(torch.tensor([row.input_ids])).logits.log_softmax(2)[0, 1, 301]).backward()
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    train_stream.update(model, torch.optim.SGD(model.parameters(), lr=1e-3), [row], torch.tensor([[0.5]]))
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter, before[name] - 1e-3 * expected[name], atol=1e-6)


def test_the_first_snapshot_that_reaches_the_target_is_found():
    model, _ = train_stream.pocket()
    usual = train_stream.copied(model)
    sharp = {**usual, "model.norm.weight": usual["model.norm.weight"] * 8}  # nearly greedy: fewer slips
    weights = [usual, usual, sharp, sharp, sharp]
    snapshots = [train_stream.Snapshot(10 * n, float(n), n, each) for n, each in enumerate(weights)]
    found, tested = train_stream.first_that_reaches(snapshots, train_stream.sums(64), 0.89, seed=0)
    assert found is not None and found.updates == 20
    assert tested[0][1] < 0.89 <= tested[-1][1]
    assert train_stream.first_that_reaches(snapshots, train_stream.sums(8), 1.1, seed=0)[0] is None
