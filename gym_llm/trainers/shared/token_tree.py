"""token_tree: the token rows of several records as a tree, in which a shared beginning occurs once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, TypeAlias

from gym_llm.trainers.shared.token_rows import TokenRow, token_rows
from gym_llm.types import Rollout, RolloutId

_Token: TypeAlias = tuple[int, int, float, int, int]
"""An id, its mask, its log probability, whether it was constrained, and the version of its weights."""


@dataclass(slots=True)
class TokenNode:
    """A stretch of tokens that the same rows share.

    Attributes:
        id: Its place in `TokenTree.nodes`: parents come before their children, as when the tree is walked in depth.
        parent: The id of the node before it; None if rows begin here.
        start: The position of its first token in those rows.
        input_ids: Token ids, one or more.
        loss_mask: 1 for an id that the model sampled, 0 for any other.
        logprobs: The natural log of each sampled id's probability; 0.0 for any other.
        constrained: 1 for an id that was sampled under a constraint.
        weight_versions: The version of the weights that sampled each id.
        rows: The places in `TokenTree.leaves` of the rows that go through it.
        value: The mean reward of those of them that are scored; None if none is.
    """

    id: int
    parent: int | None
    start: int
    input_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float]
    constrained: list[int]
    weight_versions: list[int]
    rows: list[int]
    value: float | None


@dataclass(slots=True)
class TokenLeaf:
    """The end of a row, and what belongs to the row alone.

    Attributes:
        node: The id of the row's last node. Another row may go on after it.
        rollout_id: The record's id.
        segment: The number of the row among those of its record.
        reward: The episode's reward; None if it is masked.
        rewards: The rewards of turns by position, where they are not 0.
        length: The number of the row's tokens.
        start: The position of its first sampled id.
        has_constraints: Whether the row has the column `constrained`.
        has_versions: Whether the row has the column `weight_versions`.
        routed_experts: As `TokenRow.routed_experts`.
        task_probability: As `TokenRow.task_probability`.
    """

    node: int
    rollout_id: RolloutId
    segment: int
    reward: float | None
    rewards: dict[int, float]
    length: int
    start: int
    has_constraints: bool
    has_versions: bool
    routed_experts: str | None
    task_probability: float | None


@dataclass(slots=True)
class TokenTree:
    """Rows of tokens as a forest; see `token_tree`.

    Attributes:
        nodes: Parents before their children.
        leaves: One for each row, in the order of the records.
    """

    nodes: list[TokenNode] = field(default_factory=list)
    leaves: list[TokenLeaf] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Return the number of tokens in all nodes."""
        return sum(len(node.input_ids) for node in self.nodes)

    @property
    def row_tokens(self) -> int:
        """Return the number of tokens in all rows."""
        return sum(leaf.length for leaf in self.leaves)

    def path(self, leaf: int) -> list[TokenNode]:
        """Return the nodes of a row, the first one first."""
        path, number = [], self.leaves[leaf].node
        while True:
            path.append(node := self.nodes[number])
            if node.parent is None:
                return path[::-1]
            number = node.parent

    def row(self, leaf: int) -> TokenRow:
        """Return a row as `token_rows` gives it for its record alone."""
        end, path = self.leaves[leaf], self.path(leaf)

        def column(name: str) -> list[Any]:
            return [value for node in path for value in getattr(node, name)]

        rewards = [0.0] * end.length
        for position, reward in end.rewards.items():
            rewards[position] = reward
        return TokenRow(
            column("input_ids"),
            column("loss_mask"),
            column("logprobs"),
            rewards,
            end.reward,
            end.start,
            constrained=column("constrained") if end.has_constraints else None,
            weight_versions=column("weight_versions") if end.has_versions else None,
            routed_experts=end.routed_experts,
            task_probability=end.task_probability,
        )


def token_tree(records: Iterable[Rollout]) -> TokenTree:
    """Return the tree of the token rows of these records.

    Two rows share a token if they share all before it, and if its id, mask, log probability, constraint and weight
    version are equal. So a row is unchanged by the rows beside it: `tree.row(n)` is what `token_rows` gives for its
    record. Records of `gym_llm.fork` share the turns before their fork, and records of a group at least the prompt.

    Args:
        records: Records with a trajectory. Those without token ids have no rows.
    """
    tree = TokenTree()
    tokens: list[list[_Token]] = []
    for record in records:
        for segment, row in enumerate(token_rows(record)):
            constrained, versions = row.constrained, row.weight_versions
            more = constrained or repeat(0), versions or repeat(0)
            tokens.append(list(zip(row.input_ids, row.loss_mask, row.logprobs, *more, strict=False)))
            tree.leaves.append(
                TokenLeaf(
                    -1,
                    record["rollout_id"],
                    segment,
                    row.reward,
                    {position: reward for position, reward in enumerate(row.rewards) if reward},
                    len(row.input_ids),
                    row.start,
                    constrained is not None,
                    versions is not None,
                    row.routed_experts,
                    row.task_probability,
                )
            )
    waiting: list[tuple[list[int], int, int | None]] = [
        (group, 0, None) for group in reversed(_groups(range(len(tokens)), tokens, 0))
    ]
    while waiting:
        rows, start, parent = waiting.pop()
        end = _shared_end([tokens[row] for row in rows], start)
        node = _node(tree, tokens[rows[0]][start:end], rows, start, parent)
        tree.nodes.append(node)
        longer = []
        for member in rows:
            if len(tokens[member]) == end:
                tree.leaves[member].node = node.id
            else:
                longer.append(member)
        waiting += [(group, end, node.id) for group in reversed(_groups(longer, tokens, end))]
    return tree


def _node(tree: TokenTree, tokens: list[_Token], rows: list[int], start: int, parent: int | None) -> TokenNode:
    ids, mask, logprobs, constrained, versions = zip(*tokens, strict=True)
    columns = list(ids), list(mask), list(logprobs), list(constrained), list(versions)
    rewards = [reward for row in rows if (reward := tree.leaves[row].reward) is not None]
    value = sum(rewards) / len(rewards) if rewards else None
    return TokenNode(len(tree.nodes), parent, start, *columns, rows, value)


def _groups(rows: Iterable[int], tokens: Sequence[list[_Token]], position: int) -> list[list[int]]:
    """Return the rows by their token at a position, in the order of appearance."""
    groups: dict[_Token, list[int]] = {}
    for row in rows:
        groups.setdefault(tokens[row][position], []).append(row)
    return list(groups.values())


def _shared_end(rows: list[list[_Token]], start: int) -> int:
    """Return the end of what these rows share; their tokens at `start` are equal."""
    first, end = rows[0], min(map(len, rows))
    for row in rows[1:]:
        if row[start:end] != first[start:end]:
            end = next(place for place in range(start, end) if row[place] != first[place])
    return end
