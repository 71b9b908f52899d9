"""Self-play: the pocket model learns Kuhn poker against itself, and its league of earlier selves.

First the model learns the two legal answers, pass and bet, each half of the time. Then it plays both seats, with the
same cards many times, and each seat learns from its own advantages. An eighth of the hands is played against a member
of the league, drawn by its rating. After every few steps a checkpoint becomes a member.

How good the policy is, is computed and not sampled: `exploitability` is what a perfect opponent would win against it,
in chips a hand. Best play has 0; random play has 0.458. Two CPU cores are enough:

    pip install -e ".[local,plots]"
    python examples/self_play.py --output runs/self-play
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections import defaultdict
from itertools import permutations
from pathlib import Path
from typing import Any

# Threads that wait without spinning: on a busy machine this is several times faster. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from league import League
from torch.nn.functional import cross_entropy, log_softmax
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

import gym_llm
from gym_llm.engines.pocket import MODEL_PATH
from gym_llm.engines.transformers import TransformersEngine
from gym_llm.envs.kuhn_poker import solution
from gym_llm.envs.kuhn_poker.env import BET, PASS, KuhnPoker
from gym_llm.records.seats import seat_records
from gym_llm.trainers.shared.seat_advantages import seat_group_advantages

ENV_ID = "gym_llm/KuhnPoker-v0"
DEALS = list(permutations((1, 2, 3), 2))
ASK = {"responses_create_params": {"input": [{"role": "system", "content": "Kuhn poker. Answer pass or bet."}]}}
TASKS = [{**ASK, "cards": list(deal)} for deal in DEALS]
SAMPLING = {"temperature": 1.0, "max_output_tokens": 6}
STRICT = {"max_illegal_moves": 0}
PLAYED: dict[str, Any] = {"concurrency": 1024, "sampling": SAMPLING}
PLACES = {place: player for player in (0, 1) for place in solution.information_sets(player)}


class Policy:
    """The model, and what it would do at each of the twelve places of the game."""

    def __init__(self) -> None:
        pocket = MODEL_PATH
        self.tokenizer = AutoTokenizer.from_pretrained(pocket)
        self.model: Any = AutoModelForCausalLM.from_pretrained(
            pocket, dtype=torch.float32, attn_implementation="sdpa"
        ).eval()
        self.prompts = {place: self.prompt(player, *place) for place, player in PLACES.items()}
        self.moves = {move: self.tokenizer(move)["input_ids"] + [self.tokenizer.eos_token_id] for move in (PASS, BET)}

    def prompt(self, player: int, card: int, history: tuple[str, ...]) -> list[int]:
        """The prompt of a player with a card after some moves: what the environment shows to its seat."""
        cards = [card, card % 3 + 1] if player == 0 else [card % 3 + 1, card]
        env = KuhnPoker([{**ASK, "cards": cards}])
        env.reset(seed=0)
        for move in history:
            env.step([{"type": "message", "role": "assistant", "content": move}])
        items = env.observe(f"player_{player}")["input"]
        messages = [{"role": item["role"], "content": item["content"]} for item in items]
        return list(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))

    def strategy(self, model: Any) -> tuple[dict[Any, float], float]:
        """A model's share of bets among legal moves at each place, and the least probability of a legal move."""
        rows = [(place, move, self.prompts[place], self.moves[move]) for place in PLACES for move in (PASS, BET)]
        with torch.no_grad():
            ids = [prompt + said for *_, prompt, said in rows]
            chosen, mask = log_probs(model, ids, [len(row[2]) for row in rows])
        chances = (chosen * mask).sum(1).exp().tolist()
        by_move = {(place, move): chance for (place, move, *_), chance in zip(rows, chances, strict=True)}
        legal = {place: by_move[place, PASS] + by_move[place, BET] for place in PLACES}
        return {place: by_move[place, BET] / legal[place] for place in PLACES}, min(legal.values())

    def learn_the_moves(self, steps: int, learning_rate: float) -> None:
        """Learn to say pass and bet, each half of the time, at every place."""
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=learning_rate, weight_decay=0.0)
        rows = [(self.prompts[place], self.moves[move]) for place in PLACES for move in (PASS, BET)]
        ids = pad_sequence([torch.tensor(prompt + said) for prompt, said in rows], batch_first=True)
        labels = torch.full_like(ids, -100)
        for number, (prompt, said) in enumerate(rows):
            labels[number, len(prompt) : len(prompt) + len(said)] = torch.tensor(said)
        for _ in range(steps):
            optimizer.zero_grad()
            cross_entropy(self.model(ids[:, :-1]).logits.transpose(1, 2), labels[:, 1:]).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()


def log_probs(model: Any, rows: list[list[int]], starts: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Log probabilities of the ids of some rows, and the mask of those from `starts` on; shape (rows, length)."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    every = log_softmax(model(ids[:, :-1]).logits, 2)
    places = torch.arange(1, ids.shape[1])[None, :]
    ends = torch.tensor([len(row) for row in rows])[:, None]
    mask = ((places >= torch.tensor(starts)[:, None]) & (places < ends)).float()
    return every.gather(2, ids[:, 1:, None])[..., 0], mask


async def train(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Play and learn, in turn; return what was measured, step by step."""
    torch.manual_seed(args.seed)
    started, policy = time.monotonic(), Policy()
    policy.learn_the_moves(args.warm_up, 1e-3)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=args.learning_rate, weight_decay=0.0)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=args.steps)
    magnet = Magnet(policy)
    league, log = League(memory=2000, seed=args.seed), []
    log.append(log_line(policy, magnet.model, 0, started))
    async with TransformersEngine.of(policy.model, policy.tokenizer, threads=1, max_batch_size=1024) as engine:
        for step in range(1, args.steps + 1):
            engine.seed = args.seed * 1_000_000 + step  # else the same hands would be played with the same luck
            options: dict[str, Any] = {**PLAYED, "seed": engine.seed, "tasks": TASKS}
            groups = [
                group
                async for group in gym_llm.rollout(ENV_ID, engine, group_size=args.hands, env_kwargs=STRICT, **options)
            ]
            if league.members and step % 8 == 0:
                name = league.draw()
                for seat in (0, 1):
                    against = {**STRICT, "opponents": {f"player_{1 - seat}": league.members[name]}}
                    played = gym_llm.rollout(ENV_ID, engine, group_size=args.hands // 2, env_kwargs=against, **options)
                    groups += [group async for group in played]
                league.report([record for group in groups for record in group])
            update(policy, optimizer, magnet, groups, args.penalty)
            decay.step()
            magnet.follow(policy, args.follow)
            if step % args.every == 0:
                folder = args.output / "league" / f"step-{step:04d}"
                magnet.model.save_pretrained(folder)
                policy.tokenizer.save_pretrained(folder)
                league.add(f"step {step}", f"transformers:{folder}")
                league.save(args.output / "league.json")
                log.append(log_line(policy, magnet.model, step, started))
            if time.monotonic() - started > args.minutes * 60:
                print("The time is over.", flush=True)
                break
    return log


class Magnet:
    """The moving average of the policy's weights: what the policy is kept near, and what plays best in the end."""

    def __init__(self, policy: Policy) -> None:
        self.model = type(policy.model)(policy.model.config).eval()
        self.model.load_state_dict(policy.model.state_dict())

    @torch.no_grad()
    def follow(self, policy: Policy, share: float) -> None:
        """Move this share of the way to the policy."""
        for mine, theirs in zip(self.model.parameters(), policy.model.parameters(), strict=True):
            mine.lerp_(theirs, share)

    @torch.no_grad()
    def log_probs(self, ids: torch.Tensor) -> torch.Tensor:
        """Log probabilities of all ids at each place."""
        return log_softmax(self.model(ids[:, :-1]).logits, 2)


def update(policy: Policy, optimizer: Any, magnet: Magnet, groups: list[Any], penalty: float) -> None:
    """One step of the optimizer: REINFORCE with each seat's own advantages, and a penalty for leaving the magnet.

    The penalty keeps self-play from going in circles: Sokota et al. 2023, "A unified approach to reinforcement
    learning, quantal response equilibria, and two-player zero-sum games" (arXiv 2206.05825). Equal segments are one
    row, with the sum of their advantages.
    """
    rows: dict[tuple[tuple[int, ...], tuple[int, ...]], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for group in groups:
        advantages = seat_group_advantages(group, scale="none")
        for number, record in enumerate(group):
            for seat, alone in seat_records(record).items():
                for segment in alone["trajectory"] or ():
                    row = rows[tuple(segment["input_ids"]), tuple(segment["loss_mask"])]
                    row[0] += advantages[seat][number]
                    row[1] += 1.0
    ids = pad_sequence([torch.tensor(ids) for ids, _ in rows], batch_first=True)
    mask = pad_sequence([torch.tensor(mask) for _, mask in rows], batch_first=True)[:, 1:]
    advantage, count = torch.tensor(list(rows.values())).T
    optimizer.zero_grad()
    every = log_softmax(policy.model(ids[:, :-1]).logits, 2)
    chosen = every.gather(2, ids[:, 1:, None])[..., 0]
    apart = (every.exp() * (every - magnet.log_probs(ids))).sum(2)
    loss = -(advantage[:, None] * chosen * mask).sum() + penalty * (count[:, None] * apart * mask).sum()
    (loss / count.sum()).backward()
    torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
    optimizer.step()


def log_line(policy: Policy, model: Any, step: int, started: float) -> dict[str, Any]:
    """Measure a model, print the line, and return it."""
    strategy, legal = policy.strategy(model)
    line = {
        "step": step,
        "seconds": round(time.monotonic() - started, 1),
        "exploitability": solution.exploitability(strategy),
        "value": solution.value(strategy),
        "legal": legal,
        "bets": {f"{card} {' '.join(history)}".strip(): round(bet, 3) for (card, history), bet in strategy.items()},
    }
    print(
        f"step {step:4d}  exploitability {line['exploitability']:.4f}  value {line['value']:+.4f} (best play: "
        f"{solution.VALUE:+.4f})  legal {legal:.3f}  {line['seconds']:.0f} s",
        flush=True,
    )
    return line


def main() -> None:
    """Train as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("runs/self-play"), help="folder to write to")
    parser.add_argument("--steps", type=int, default=600, help="updates (default: 600)")
    parser.add_argument("--minutes", type=float, default=14.0, help="stop after this long (default: 14)")
    parser.add_argument("--hands", type=int, default=32, help="hands of each of the six deals in a step (default: 32)")
    parser.add_argument("--warm-up", type=int, default=60, help="updates that teach the moves (default: 60)")
    parser.add_argument("--learning-rate", type=float, default=4e-4, help="at first, then falling (default: 4e-4)")
    parser.add_argument("--penalty", type=float, default=0.7, help="for leaving the magnet (default: 0.7)")
    parser.add_argument("--follow", type=float, default=0.03, help="how fast the magnet follows (default: 0.03)")
    parser.add_argument("--every", type=int, default=25, help="steps between checkpoints (default: 25)")
    parser.add_argument("--seed", type=int, default=0, help="of all sampling (default: 0)")
    args = parser.parse_args()
    disable_progress_bar()
    args.output.mkdir(parents=True, exist_ok=True)
    log = asyncio.run(train(args))
    (args.output / "log.json").write_text(json.dumps(log, indent=1))
    print(f"{log[0]['exploitability']:.4f} chips a hand at first, {log[-1]['exploitability']:.4f} now.")


if __name__ == "__main__":
    main()
