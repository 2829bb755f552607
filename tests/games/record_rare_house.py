"""Plays the rare house on TextWorld and writes down what it says: `python tests/games/record_rare_house.py GAME_FILE`.

GAME_FILE is any real `game.tw-pddl`: the house borrows its domain and grammar. Run it again after a change of the house
or of the probes; it takes some minutes.
"""

from __future__ import annotations

import json
import lzma
import random
import sys
import tempfile
from pathlib import Path

from rare_house import RECORD, TASKS, problem_of, rare_game

from agentic_rl.games.check import Policy, random_policy, scripted
from agentic_rl.games.probes import probe_scripts
from agentic_rl.games.problem import TASK_PREFIX
from agentic_rl.games.textworld_engine import TextWorldEpisode

RANDOM_STEPS = 60


def main(game_file: str) -> None:
    real = json.loads(Path(game_file).read_text(encoding="utf-8"))
    before, _, after = real["grammar"].partition(TASK_PREFIX)
    plays = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "game.tw-pddl"
        for kind, (sentence, *_) in TASKS.items():
            grammar = f'{before}{TASK_PREFIX}{sentence}"{after.partition(chr(34))[2]}'
            record = {**real, "grammar": grammar, "pddl_problem": problem_of(kind), "walkthrough": []}
            path.write_text(json.dumps(record), encoding="utf-8")
            episode = TextWorldEpisode(path)
            for name, choose in policies(kind).items():
                result = episode.reset()
                shown = [[None, result.observation, result.admissible_actions, result.won]]
                while (command := choose(result)) is not None:
                    result = episode.step(command)
                    shown.append([command, result.observation, result.admissible_actions, result.won])
                plays.append({"kind": kind, "play": name, "shown": shown})
                print(kind, name, len(shown), flush=True)
            episode.close()
    RECORD.write_bytes(lzma.compress("\n".join(map(json.dumps, plays)).encode(), preset=9))


def policies(kind: str) -> dict[str, Policy]:
    """Every probe, and two random plays."""
    probes = {name: scripted(script) for name, script in probe_scripts(rare_game(kind)).items()}
    seeds = {f"random {seed}": random.Random(f"{kind} {seed}") for seed in (1, 2)}
    return probes | {name: random_policy(rng, RANDOM_STEPS) for name, rng in seeds.items()}


if __name__ == "__main__":
    main(sys.argv[1])
