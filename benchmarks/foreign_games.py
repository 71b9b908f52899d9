"""Records episodes of games from other frameworks themselves: `python foreign_games.py NAME COUNT FILE.jsonl`.

It runs in the framework's own environment of Python, without gym_llm; `foreign_parity.py` starts it. A line is in the
format that `gym-llm env replay` reads. Actions are random, and some are invalid.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

_LONG_ARRAY = 400
_STEPS = 40


def plain(value: Any) -> Any:
    """A value as JSON; a long array becomes its digest."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if getattr(value, "size", 0) > _LONG_ARRAY:
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        return {"__ndarray_sha256__": digest, "shape": list(value.shape), "dtype": str(value.dtype)}
    return value.tolist() if hasattr(value, "tolist") else value


def of_gymnasium(framework: str, envs: list[tuple[str, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    import gymnasium

    for seed, (env_id, kwargs) in enumerate(itertools.cycle(envs)):
        env = gymnasium.make(env_id, **kwargs)
        env.action_space.seed(seed)
        observation, _ = env.reset(seed=seed)
        episode: dict[str, Any] = {"framework": framework, "version": version("gymnasium"), "env": env_id}
        episode |= {"seed": seed, "kwargs": kwargs, "actions": [], "observations": [plain(observation)]}
        episode |= {"rewards": [], "done": False}
        while not episode["done"] and len(episode["actions"]) < _STEPS:
            action = env.action_space.sample()
            observation, reward, terminated, truncated, _ = env.step(action)
            episode["actions"].append(plain(action))
            episode["observations"].append(plain(observation))
            episode["rewards"].append(float(reward))
            episode["done"] = bool(terminated or truncated)
        env.close()
        yield episode


def gymnasium() -> Iterator[dict[str, Any]]:
    names: tuple[str, ...] = (
        "FrozenLake-v1",
        "FrozenLake8x8-v1",
        "CartPole-v1",
        "Taxi-v4",
        "CliffWalking-v1",
        "Blackjack-v1",
    )
    names += ("MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1")
    return of_gymnasium("gymnasium", [*((name, {}) for name in names), ("FrozenLake-v1", {"is_slippery": False})])


def minigrid() -> Iterator[dict[str, Any]]:
    import minigrid

    assert minigrid
    names: tuple[str, ...] = (
        "Empty-5x5",
        "Empty-Random-6x6",
        "DoorKey-5x5",
        "DoorKey-8x8",
        "Fetch-5x5-N2",
        "KeyCorridorS3R1",
    )
    names += ("MultiRoom-N2-S4", "LavaCrossingS9N1", "Dynamic-Obstacles-5x5", "Unlock", "MemoryS7")
    worlds = [f"MiniGrid-{name}-v0" for name in names]
    worlds += [f"BabyAI-{name}-v0" for name in ("GoToLocal", "GoToRedBall", "PickupLoc", "BossLevel", "OpenDoor")]
    return of_gymnasium("minigrid", [(name, {}) for name in worlds])


def ale() -> Iterator[dict[str, Any]]:
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    kinds: list[dict[str, Any]] = [{"obs_type": "ram"}, {}, {"obs_type": "grayscale", "frameskip": 2}]
    kinds.append({"repeat_action_probability": 0.0, "obs_type": "ram"})
    names: tuple[str, ...] = ("Pong", "Breakout", "Freeway", "SpaceInvaders", "Seaquest", "Qbert", "MsPacman", "Boxing")
    return of_gymnasium("ale-py", [(f"ALE/{name}-v5", kind) for kind in kinds for name in names])


def open_spiel() -> Iterator[dict[str, Any]]:
    import pyspiel

    names: tuple[str, ...] = (
        "tic_tac_toe",
        "connect_four",
        "kuhn_poker",
        "kuhn_poker(players=3)",
        "leduc_poker",
        "liars_dice",
    )
    names += ("goofspiel(num_cards=5)", "matrix_pd", "matrix_rps", "blackjack", "hanabi", "negotiation", "hex")
    names += ("breakthrough(rows=5,columns=5)", "first_sealed_auction", "bargaining", "pig", "nim", "othello", "chess")
    names += ("backgammon", "go(board_size=5)", "oshi_zumo", "phantom_ttt", "dark_hex(board_size=3)", "y(board_size=5)")
    names += ("battleship", "coop_box_pushing", "mancala", "checkers", "catch", "cliff_walking", "2048", "havannah")
    for seed, name in enumerate(itertools.cycle(names)):
        game = pyspiel.load_game(name)
        kind, draw, state = game.get_type(), random.Random(seed), game.new_initial_state()
        views = [
            view
            for view, is_there in (
                ("information_state_string", kind.provides_information_state_string),
                ("observation_string", kind.provides_observation_string),
            )
            if is_there
        ]
        episode: dict[str, Any] = {"framework": "open_spiel", "version": "2.0.2", "env": name, "seed": seed}
        episode |= {"kwargs": {}, "actions": [], "observations": [], "rewards": None, "done": False}
        while not state.is_terminal():
            if state.is_chance_node():
                moves, weights = zip(*state.chance_outcomes(), strict=True)
                move = draw.choices(moves, weights)[0]
                episode["actions"].append({"seat": "chance", "action": move})
                state.apply_action(move)
                continue
            if state.is_simultaneous_node():
                legal = [state.legal_actions(seat) for seat in range(game.num_players())]
                episode["observations"].append({"seat": "all", "legal": legal, "state": str(state)})
                if len(episode["actions"]) > 2 * _STEPS:
                    break
                chosen = [draw.choice(each) for each in legal]
                episode["actions"].append({"seat": "all", "action": chosen})
                state.apply_actions(chosen)
                continue
            seat = state.current_player()
            names_of = {state.action_to_string(seat, move): move for move in state.legal_actions(seat)}
            seen = {"seat": seat, "observation": _view(state, views, seat), "legal": list(names_of)}
            episode["observations"].append(seen)
            if len(episode["actions"]) > 2 * _STEPS:
                break
            text = draw.choice(list(names_of))
            episode["actions"].append({"seat": seat, "action": names_of[text], "text": text})
            state.apply_action(names_of[text])
        if state.is_terminal():
            episode |= {"rewards": list(state.returns()), "done": True}
        yield episode


def _view(state: Any, views: list[str], seat: int) -> str:
    for view in views:
        try:
            return str(getattr(state, view)(seat))
        except Exception:
            continue
    return ""


def pettingzoo() -> Iterator[dict[str, Any]]:
    from importlib import import_module

    names = ("tictactoe_v3", "connect_four_v3", "rps_v2", "leduc_holdem_v4", "texas_holdem_v4", "hanabi_v5", "chess_v6")
    kinds = [*((name, "aec") for name in names), ("rps_v2", "parallel"), ("texas_holdem_no_limit_v6", "aec")]
    for seed, (name, api) in enumerate(itertools.cycle(kinds)):
        module, draw = import_module(f"pettingzoo.classic.{name}"), random.Random(seed)
        episode: dict[str, Any] = {"framework": "pettingzoo", "version": version("pettingzoo"), "env": name}
        episode |= {"seed": seed, "kwargs": {"api": api}, "actions": [], "observations": [], "done": False}
        yield (_aec if api == "aec" else _parallel)(module, episode, draw, seed)


def _aec(module: Any, episode: dict[str, Any], draw: random.Random, seed: int) -> dict[str, Any]:
    env, totals = module.env(), dict[str, float]()
    env.reset(seed=seed)
    for agent in env.agent_iter(3 * _STEPS):
        observation, reward, terminated, truncated, _ = env.last()
        totals[agent] = totals.get(agent, 0.0) + float(reward)
        seen = {"agent": agent, "observation": plain(observation), "reward": float(reward)}
        seen |= {"terminated": bool(terminated), "truncated": bool(truncated)}
        episode["observations"].append(seen)
        action = None
        if not (terminated or truncated):
            mask = observation.get("action_mask") if isinstance(observation, dict) else None
            space = range(env.action_space(agent).n)
            legal = [move for move in space if mask is None or mask[move]]
            action = draw.choice(legal if draw.random() < 0.98 else list(space))  # an illegal move ends some games
        episode["actions"].append({"agent": agent, "action": action})
        env.step(action)
    episode |= {"rewards": totals, "done": not env.agents}
    env.close()
    return episode


def _parallel(module: Any, episode: dict[str, Any], draw: random.Random, seed: int) -> dict[str, Any]:
    env = module.parallel_env()
    observations, _ = env.reset(seed=seed)
    episode |= {"observations": [plain(observations)], "rewards": []}
    while env.agents:
        actions = {agent: draw.randrange(env.action_space(agent).n) for agent in env.agents}
        observations, rewards, *_ = env.step(actions)
        episode["actions"].append(actions)
        episode["observations"].append(plain(observations))
        episode["rewards"].append({agent: float(reward) for agent, reward in rewards.items()})
    episode["done"] = True
    env.close()
    return episode


def _cells(rows: int, columns: int) -> Callable[[random.Random], str]:
    return lambda draw: f"[{draw.randrange(rows)} {draw.randrange(columns)}]"


def _among(*texts: str) -> Callable[[random.Random], str]:
    return lambda draw: draw.choice(texts)


def textarena() -> Iterator[dict[str, Any]]:
    import textarena as arena

    directions = _among("[left]", "[right]", "[up]", "[down]")
    games: list[tuple[str, int, Callable[[random.Random], str]]] = [
        ("TicTacToe-v0", 2, lambda draw: f"[{draw.randrange(9)}]"),
        ("TicTacToe-v0-raw", 2, lambda draw: f"[{draw.randrange(9)}]"),
        ("KuhnPoker-v0", 2, _among("[check]", "[bet]", "[call]", "[fold]")),
        ("KuhnPoker-v0-train", 2, _among("[check]", "[bet]", "[call]", "[fold]")),
        ("ConnectFour-v0", 2, lambda draw: f"[col {draw.randrange(7)}]"),
        ("Nim-v0", 2, lambda draw: f"[{draw.randrange(3)} {draw.randint(1, 3)}]"),
        ("IteratedPrisonersDilemma-v0", 2, _among("[cooperate]", "[defect]", "hello")),
        ("PigDice-v0", 2, _among("[roll]", "[hold]")),
        ("SimpleNegotiation-v0", 2, _among("hi", "[Offer: 1 Wheat -> 2 Ore]", "[Accept]", "[Deny]")),
        ("LiarsDice-v0", 2, lambda draw: f"[Bid: {draw.randint(1, 9)}, {draw.randint(1, 6)}]"),
        ("ThreePlayerIPD-v0", 3, _among("hey", "[0 cooperate] [1 defect]", "[1 defect] [2 cooperate]")),
        ("SecretMafia-v0", 6, lambda draw: f"[Player {draw.randrange(6)}]"),
        ("Poker-v0", 3, _among("[Check]", "[Call]", "[Bet 100]", "[Raise 200]", "[Fold]")),
        ("GuessTheNumber-v0", 1, lambda draw: f"[{draw.randint(1, 20)}]"),
        ("Mastermind-v0", 1, lambda draw: f"[{' '.join(map(str, draw.sample(range(1, 7), 4)))}]"),
        ("Blackjack-v0", 1, _among("[Hit]", "[Stand]")),
        ("FrozenLake-v0", 1, directions),
        ("2048-v0-ultra-easy", 1, directions),
        ("TowerOfHanoi-v0", 1, lambda draw: f"[{' '.join(draw.sample('ABC', 2))}]"),
        ("Sudoku-v0-very-easy", 1, lambda draw: f"[{draw.randint(1, 9)} {draw.randint(1, 9)} {draw.randint(1, 9)}]"),
        ("Minesweeper-v0-small", 1, _cells(5, 5)),
        ("Sokoban-v0", 1, directions),
        ("Secretary-v0", 1, _among("[continue]", "[continue]", "[continue]", "[accept]")),
        ("Bandit-v0", 1, _among("[red]", "[green]", "[blue]", "[yellow]")),
        ("LightsOut-v0", 1, _cells(5, 5)),
        ("Chess-v0", 2, _among("[e2e4]", "[e7e5]", "[g1f3]", "[b8c6]", "[a2a3]", "[a7a6]")),
        ("Othello-v0", 2, _cells(8, 8)),
        ("Breakthrough-v0", 2, _among("[a2a3]", "[b7b6]", "[c2c3]", "[d7d6]")),
        ("Snake-v0", 2, directions),
        ("RushHour-v0", 1, _among("[A+]", "[B-]", "[X+]", "[C+]")),
    ]
    for seed, (name, players, say) in enumerate(itertools.cycle(games)):
        draw = random.Random(seed)
        try:
            env = arena.make(name)
            env.reset(num_players=players, seed=seed)
        except Exception as error:  # a file from the internet, a newer Python
            if seed < len(games):
                print(f"{name}: left out: {str(error)[:80]}", file=sys.stderr)
            continue
        episode: dict[str, Any] = {"framework": "textarena", "version": version("textarena"), "env": name}
        episode |= {"seed": seed, "kwargs": {"num_players": players}, "actions": [], "observations": []}
        episode |= {"rewards": None, "done": False}
        while not episode["done"] and len(episode["actions"]) < _STEPS:
            seat, text = env.get_observation()
            if not isinstance(text, str):
                text = [[sender, said, kind.name] for sender, said, kind in text]
            episode["observations"].append({"seat": seat, "observation": text})
            action = say(draw) if draw.random() < 0.9 else draw.choice(["", "?", "[99 99]"])
            episode["actions"].append({"seat": seat, "action": action})
            episode["done"], _ = env.step(action=action)
            episode["done"] = bool(episode["done"])
        if episode["done"]:
            rewards, _ = env.close()
            episode["rewards"] = {str(seat): float((rewards or {}).get(seat, 0)) for seat in range(players)}
        yield episode


def gem() -> Iterator[dict[str, Any]]:
    import gem as framework

    directions = ["up", "down", "left", "right"]
    games: dict[str, Callable[[random.Random], str]] = {
        "GuessTheNumber": lambda draw: str(draw.randint(1, 50)),
        "Mastermind": lambda draw: " ".join(map(str, draw.sample(range(1, 9), draw.choice([2, 3, 4])))),
        "Minesweeper": lambda draw: f"{draw.choice(['reveal', 'flag'])} {draw.randrange(6)} {draw.randrange(6)}",
        "FifteenPuzzle": lambda draw: draw.choice(directions),
        "Sudoku": lambda draw: f"{draw.randint(1, 4)} {draw.randint(1, 4)} {draw.randint(1, 4)}",
        "TowerofHanoi": lambda draw: " ".join(draw.sample("ABC", 2)),
        "Game2048": lambda draw: draw.choice(directions),
        "Sokoban": lambda draw: draw.choice(directions),
        "Crosswords": lambda draw: f"{draw.randrange(9)} {draw.randrange(9)} {draw.choice('ETAOIN')}",
    }
    kinds = [(f"game:{name}-v0-{level}", say) for name, say in games.items() for level in ("easy", "hard", "random")]
    broken = ("game:FifteenPuzzle-v0-random", "game:Crosswords-v0-random")  # GEM's own errors
    kinds = [each for each in kinds if each[0] not in broken]
    for name in ("leg_counting", "chain_sum", "letter_counting", "knights_knaves", "basic_arithmetic", "gcd"):
        kinds.append((f"rg:{name}", lambda draw: str(draw.randint(0, 99))))
    for seed, (name, say) in enumerate(itertools.cycle(kinds)):
        draw, env = random.Random(f"{seed} actions"), framework.make(name)
        observation, _ = env.reset(seed=seed)
        episode: dict[str, Any] = {"framework": "gem", "version": version("gem-llm"), "env": name, "seed": seed}
        episode |= {"kwargs": {"wrappers": ""}, "actions": [], "observations": [observation], "rewards": []}
        episode |= {"done": False}
        while not episode["done"] and len(episode["actions"]) < _STEPS // 2:
            action = rf"\boxed{{{say(draw)}}}" if draw.random() < 0.95 else "no box"
            observation, reward, terminated, truncated, _ = env.step(action)
            episode["actions"].append(action)
            episode["observations"].append(observation)
            episode["rewards"].append(float(reward))
            episode["done"] = bool(terminated or truncated)
        yield episode


def main(name: str, count: int, path: str) -> None:
    """Write so many episodes of a framework."""
    with open(path, "w") as file:
        for episode in itertools.islice(globals()[name](), count):
            file.write(json.dumps(episode) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
