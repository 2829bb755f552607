"""What the builtin model imitates: dialogues of the explorer with generated and real training games, as tokens.

Every example is a function of (seed, stage, index) alone, so that a run can stop anywhere and go on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from explorer import Explorer
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast
from vocabulary import CALL_HEAD, CALL_TAIL

from agentic_rl.dialogue.prompts import (
    SYSTEM_PROMPT,
    TurnStatus,
    first_message,
    shown_actions,
    tool_message,
    with_skills,
)
from agentic_rl.dialogue.tool import TOOL_SCHEMA
from agentic_rl.games import Episode, load_game, task_of
from agentic_rl.games.generate import household_games
from agentic_rl.games.interface import GameEntry
from agentic_rl.skills import SkillBook, builtin_skills_dir

IDLE = ("look", "inventory", "examine ", "go to ", "close ", "open ")
"""What a clumsy player does in between: each of these kinds equally often, all harmless, all a wasted turn."""

MAX_TURNS = 50
WORLD, OWN, STUMBLE = 0, 1, 2
POOL = 20_000  # generated games of each difficulty; more than any run gets through
GAMES_SEED = 7  # the panels that training and evaluation play are drawn with other seeds


@dataclass(frozen=True, slots=True)
class Mixture:
    """What a stage trains on.

    Attributes
    ----------
    sources
        Share of each source: a difficulty of generated households, or `real`.
    skilled
        Share of dialogues with the skill texts in front of the system prompt; these are played without clumsiness.
    clumsy
        Share of clumsy players among the others.
    clumsiness
        Chance that a clumsy player wastes a turn.
    stumbles
        Chance of a turn, in every dialogue, that is not to be imitated (a random or an impossible action): what comes
        after it shows how to go on from a mistake.
    max_tokens
        Longer dialogues are cut after their last whole turn.
    """

    sources: dict[str, float]
    max_tokens: int
    skilled: float = 0.0
    clumsy: float = 0.0
    clumsiness: float = 0.25
    stumbles: float = 0.05


@dataclass(frozen=True, slots=True)
class Example:
    """One dialogue of n tokens.

    Attributes
    ----------
    tokens
        Shape (n,).
    roles
        Shape (n,): what each token is, `WORLD`, `OWN` (to be imitated) or `STUMBLE` (not to be).
    sought
        Shape (n,): at the name of everything that the world says can be taken, 1 if the task asks for it, else 0;
        -1 at all other tokens.
    aims
        Shape (n,): at the head of every call, the verb's token that the explorer would say, whatever was done; else -1.
    """

    tokens: NDArray[np.int64]
    roles: NDArray[np.int8]
    sought: NDArray[np.int8]
    aims: NDArray[np.int64]


class Dialogues:
    """Makes examples of a mixture. `data_root` is the folder above the real `train` split, or None."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, data_root: Path | None, seed: int) -> None:
        self.tokenizer = tokenizer
        self.skills = SkillBook.load(builtin_skills_dir())
        self.seed = seed
        self.real = [] if data_root is None else _real_games(data_root)
        self.households: dict[str, list[GameEntry]] = {}

    def example(self, mixture: Mixture, key: str) -> Example:
        rng = random.Random(f"{self.seed}/{key}")
        sources = {name: share for name, share in mixture.sources.items() if name != "real" or self.real}
        [source] = rng.choices(list(sources), list(sources.values()))
        if source == "real":
            path = rng.choice(self.real)
            task_type = path.parent.parent.name.partition("-")[0]
            episode: Episode = load_game(path).episode()
        else:
            entry = rng.choice(self._households(source))
            task_type, episode = entry.task_type, entry.open()
        skilled = rng.random() < mixture.skilled
        clumsiness = mixture.clumsiness if not skilled and rng.random() < mixture.clumsy else 0.0
        system = with_skills(SYSTEM_PROMPT, self.skills.for_task(task_type) if skilled else "")
        return self._play(task_type, episode, system, clumsiness, mixture, rng)

    def _households(self, difficulty: str) -> list[GameEntry]:
        if difficulty not in self.households:
            self.households[difficulty] = list(household_games("train", POOL, int(difficulty), GAMES_SEED))
        return self.households[difficulty]

    def _play(
        self,
        task_type: str,
        episode: Episode,
        system: str,
        clumsiness: float,
        mixture: Mixture,
        rng: random.Random,
    ) -> Example:
        result = episode.reset()
        task = task_of(result.observation)
        explorer = Explorer(task_type, task, result.admissible_actions)
        user = first_message(task, result.observation, shown_actions(result.admissible_actions))
        tokens = prompt_tokens(self.tokenizer, system, user)
        roles, aims = [WORLD] * len(tokens), [-1] * len(tokens)
        before = result.admissible_actions
        for step in range(1, MAX_TURNS + 1):
            now = result.admissible_actions
            role, action = OWN, explorer.act(now)
            aim = self._encode(f"\n{action}")[0]
            if rng.random() < clumsiness:
                action = _clumsy(now, rng)
            if rng.random() < mixture.stumbles:
                role, action = STUMBLE, _stumble(before, now, rng)
            before, result = now, episode.step(action)
            explorer.observe(action, result.observation)
            turn = self._encode(f"{CALL_HEAD}\n{action}{CALL_TAIL}<|end|>")
            between: list[int] = []
            if not result.done:
                status = TurnStatus.EXECUTED if action in now else TurnStatus.NOT_ADMISSIBLE
                answer = tool_message(step, status, result.observation, shown_actions(result.admissible_actions))
                between = self._encode(f"<|tool|>{answer}<|end|><|assistant|>")
            if len(tokens) + len(turn) + len(between) > mixture.max_tokens:
                break
            tokens += turn + between
            roles += [role] * len(turn) + [WORLD] * len(between)
            aims += [aim] + [-1] * (len(turn) + len(between) - 1)
            if result.done:
                break
        ids, kinds = np.array(tokens), np.array(roles, np.int8)
        return Example(ids, kinds, self._sought(ids, kinds, explorer.object), np.array(aims))

    def _sought(self, tokens: NDArray[np.int64], roles: NDArray[np.int8], wanted: str) -> NDArray[np.int8]:
        [take], [name] = self._encode("\ntake"), self._encode(f" {wanted}")
        named = np.flatnonzero((tokens[:-1] == take) & (roles[1:] == WORLD)) + 1
        sought = np.full(len(tokens), -1, np.int8)
        sought[named] = tokens[named] == name
        return sought

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def batches(self, mixture: Mixture, stage: str, batch_tokens: int, chunk: int = 192) -> Iterator[list[Example]]:
        """Endless batches of dialogues of like length: rows times the longest row is at most `batch_tokens`."""
        start = 0
        while True:
            examples = [self.example(mixture, f"{stage}/{start + i}") for i in range(chunk)]
            start += chunk
            examples.sort(key=lambda example: len(example.tokens))
            batches: list[list[Example]] = [[]]
            for example in examples:
                if batches[-1] and (len(batches[-1]) + 1) * len(example.tokens) > batch_tokens:
                    batches.append([])
                batches[-1].append(example)
            random.Random(f"{self.seed}/{stage}/{start}").shuffle(batches)
            yield from batches


def prompt_tokens(tokenizer: PreTrainedTokenizerFast, system: str, user: str) -> list[int]:
    """The first prompt of an episode, by the chat template."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    ids: list[int] = tokenizer.apply_chat_template(
        messages, tools=[TOOL_SCHEMA], add_generation_prompt=True, return_dict=False
    )
    return ids


def _clumsy(admissible: tuple[str, ...], rng: random.Random) -> str:
    kinds = [actions for start in IDLE if (actions := [a for a in admissible if a.startswith(start)])]
    return rng.choice(rng.choice(kinds))


def _stumble(before: tuple[str, ...], now: tuple[str, ...], rng: random.Random) -> str:
    """A random action, or one that was possible a turn ago and is not now."""
    gone = [action for action in before if action not in now]
    return rng.choice(gone) if gone and rng.random() < 0.5 else _clumsy(now, rng)


def _real_games(data_root: Path) -> list[Path]:
    games = sorted(data_root.glob("**/train/*/*/game.tw-pddl"))
    return [path for path in games if "movable" not in str(path) and "Sliced" not in str(path)]
