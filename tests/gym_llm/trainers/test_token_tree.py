"""Token trees: what is shared occurs once, and every row is unchanged."""

import random
from typing import Any

import pytest
from testing import often

from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.trainers.shared.token_tree import token_tree
from gym_llm.trainers.shared.tree_batches import areal_batch, trl_samples


def record(number: int, reward: float | None, *segments: dict[str, Any]) -> Any:
    return {"rollout_id": {"task_index": 0, "repeat_index": number}, "reward": reward, "trajectory": list(segments)}


def segment(ids: list[int], first: int, **columns: Any) -> dict[str, Any]:
    mask = [int(place >= first) for place in range(len(ids))]
    return {
        "input_ids": ids,
        "loss_mask": mask,
        "logprobs": [-each / 8 * on for each, on in zip(ids, mask, strict=True)],
        **columns,
    }


def random_records(seed: int) -> list[Any]:
    """Return episodes that fork from each other at random turns, and some that only seem to."""
    rng = random.Random(seed)
    records: list[Any] = []
    has_rewards, has_versions = rng.random() < 0.5, rng.random() < 0.5
    while len(records) < rng.randint(1, 8):
        columns: list[tuple[Any, ...]] = [(rng.randint(0, 2), 0, 0.0, 0.0, 0) for _ in range(rng.randint(1, 3))]
        if records and rng.random() < 0.8:  # a fork
            parent = rng.choice(records)["trajectory"][0]
            versions = parent.get("weight_versions") or [0] * len(parent["input_ids"])
            rewards = parent.get("rewards") or [0.0] * len(parent["input_ids"])
            whole = zip(parent["input_ids"], parent["loss_mask"], parent["logprobs"], rewards, versions, strict=True)
            columns = list(whole)[: rng.randint(0, len(versions))] or columns
        for _ in range(rng.randint(1, 4)):
            columns += [(rng.randint(0, 2), 0, 0.0, 0.0, 0) for _ in range(rng.randint(0, 2))]
            for _ in range(rng.randint(1, 3)):
                columns.append(
                    (rng.randint(0, 2), 1, -rng.randint(1, 2) / 4, rng.choice([0.0, 0.5]), rng.randint(0, 1))
                )
        names = ("input_ids", "loss_mask", "logprobs", "rewards", "weight_versions")
        made = dict(zip(names, map(list, zip(*columns, strict=True)), strict=True))
        if not has_rewards:
            del made["rewards"]
        if not has_versions:
            del made["weight_versions"]
        records.append(record(len(records), rng.choice([None, 0.0, 1.0, 0.3]), made))
    return records


def test_every_row_of_random_trees_is_that_of_its_record_alone():
    shared = 0
    for seed in range(often(200, 2000)):
        records = random_records(seed)
        tree = token_tree(records)
        alone = [row for each in records for row in token_rows(each)]
        assert [tree.row(number) for number in range(len(tree.leaves))] == alone
        shared += tree.row_tokens - tree.tokens
        children: dict[Any, set[Any]] = {}
        for node in tree.nodes:
            first = node.input_ids[0], node.loss_mask[0], node.logprobs[0], node.weight_versions[0]
            assert first not in children.setdefault(node.parent, set()), "two nodes share a token"
            children[node.parent].add(first)
            assert node.parent is None or node.parent < node.id
            scored = [tree.leaves[row].reward for row in node.rows if tree.leaves[row].reward is not None]
            assert node.value == (sum(scored) / len(scored) if scored else None)
    assert shared > 1000


def test_a_fork_shares_its_beginning_only():
    records = [
        record(0, 1.0, segment([1, 2, 3, 4], 2)),
        record(1, 0.0, segment([1, 2, 3, 5, 6], 2)),
        record(2, None, segment([1, 2, 3], 2)),
        record(3, 1.0, segment([1, 2, 3, 4], 3)),  # the third id was not sampled
    ]
    tree = token_tree(records)
    assert [(node.parent, node.start, node.input_ids, node.value) for node in tree.nodes] == [
        (None, 0, [1, 2], 2 / 3),
        (0, 2, [3], 0.5),
        (1, 3, [4], 1.0),
        (1, 3, [5, 6], 0.0),
        (0, 2, [3, 4], 1.0),
    ]
    assert [leaf.node for leaf in tree.leaves] == [2, 3, 1, 4]
    assert (tree.tokens, tree.row_tokens) == (8, 16)


def test_records_without_ids_have_no_rows():
    assert token_tree([]).nodes == token_tree([record(0, 1.0)]).nodes == []


def test_trl_packs_the_samples_into_its_own_tree():
    packing = pytest.importorskip("trl.experimental.async_grpo.packing")
    for seed in range(often(20, 200)):
        tree = token_tree(random_records(seed))
        samples = trl_samples(tree, [float(number) for number in range(len(tree.leaves))])
        if not samples:
            continue
        theirs = packing.TreeRow()
        for sample in samples:
            assert theirs.fits(sample, 10_000)
            theirs.add(sample)
        packed = theirs.pack()
        rows = [tree.row(number) for number, leaf in enumerate(tree.leaves) if leaf.reward is not None]
        spelt = [[theirs.tokens[node] for node in nodes] for nodes in theirs.sample_nodes]
        assert spelt == [row.input_ids for row in rows]
        trained = [value for row in rows for value, on in zip(row.logprobs[1:], row.loss_mask[1:], strict=True) if on]
        assert packed["old_log_probs"].tolist() == trained
        advantages = [float(number) for number, leaf in enumerate(tree.leaves) if leaf.reward is not None]
        assert [advantages[place] for place in packed["segment_id"].tolist()] == packed["advantages"].tolist()
    with pytest.raises(ValueError, match="advantages"):
        trl_samples(tree, [])


def test_a_batch_of_areal_has_the_rows():
    pytest.importorskip("torch")
    tree = token_tree(
        [
            record(0, 1.0, segment([1, 2, 3], 1, weight_versions=[0, 2, 2])),
            record(1, None, segment([1, 2, 9, 9, 9], 1)),
            record(2, 0.5, segment([1, 7], 1)),
        ]
    )
    batch = areal_batch(tree)
    assert batch["input_ids"].tolist() == [[1, 2, 3], [1, 7, 0]]
    assert batch["attention_mask"].tolist() == [[True] * 3, [True, True, False]]
    assert batch["loss_mask"].tolist() == [[0, 1, 1], [0, 1, 0]]
    assert batch["versions"].tolist() == [[-1, 2, 2], [-1, 0, 0]]
    assert batch["logprobs"].tolist() == [[0.0, -0.25, -0.375], [0.0, -0.875, 0.0]]
    assert batch["rewards"].tolist() == [1.0, 0.5]
    with pytest.raises(ValueError, match="scored"):
        areal_batch(token_tree([]))


def test_a_row_keeps_its_experts_and_the_probability_of_its_task():
    records = [record(0, 1.0, segment([1, 2, 3], 1, routed_experts="one")), record(1, 0.0, segment([1, 2, 4], 1))]
    records[0]["info"] = {"task_probability": 0.25}
    tree = token_tree(records)
    assert [tree.row(0), tree.row(1)] == [row for each in records for row in token_rows(each)]
    assert (tree.row(0).routed_experts, tree.row(0).task_probability) == ("one", 0.25)
