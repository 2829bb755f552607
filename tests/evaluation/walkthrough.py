"""A sampler that knows the games: it wins where it is told to, and stumbles where it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentic_rl.dialogue import ChatFormat
from agentic_rl.games import solve_from
from agentic_rl.games.interface import GameEntry
from agentic_rl.policy.protocol import Completion, FinishReason, FloatArray, SamplingParams


def call_of(action: str) -> str:
    return (
        f"<tool_call>\n<function=alfworld_step>\n<parameter=action>\n{action}\n</parameter>\n</function>\n</tool_call>"
    )


@dataclass
class Walkthrough:
    """Plays the shortest solution of every game.

    Attributes
    ----------
    stumbles
        Games (ids) whose first turn is no call and whose second is an action that is not available.
    lost
        Games in which it only looks around.
    plans
        Actions to say, in place of the solution, by game.
    before
        Awaited before every answer, with the game's id: a test may wait there, or raise.
    played
        The ids of the games it was asked about, in order of their first requests.
    """

    chat: ChatFormat
    games: Sequence[GameEntry]
    stumbles: Collection[str] = ()
    lost: Collection[str] = ()
    plans: Mapping[str, Sequence[str]] = field(default_factory=dict)
    before: Callable[[str], Awaitable[None]] | None = None
    played: list[str] = field(default_factory=list)
    closed: bool = False
    id: str = "walkthrough"

    def __post_init__(self) -> None:
        self._solutions: dict[str, tuple[str, Sequence[str]]] = {}
        for game in self.games:
            episode = game.open()
            observation = episode.reset().observation
            solution = solve_from(episode)  # type: ignore[arg-type]
            assert solution is not None
            self._solutions[observation] = game.game_id, solution

    @property
    def tokenizer(self) -> Any:
        return self.chat.tokenizer

    async def sample(self, prompt: Sequence[int], n: int, params: SamplingParams) -> list[Completion]:
        text = self.chat.decode(prompt)
        game_id, solution = next(found for observation, found in self._solutions.items() if observation in text)
        if game_id not in self.played:
            self.played.append(game_id)
        await asyncio.sleep(0)
        if self.before is not None:
            await self.before(game_id)
        said = self._say(game_id, solution, text.count("Status: "))
        tokens = [*self.chat.tokenizer.encode(said, add_special_tokens=False), params.stop_token_ids[0]]
        tokens = tokens[: params.max_tokens]
        return [Completion(tuple(tokens), (-0.5,) * len(tokens), FinishReason.STOP)] * n

    def _say(self, game_id: str, solution: Sequence[str], turns: int) -> str:
        if game_id in self.plans:
            return call_of(self.plans[game_id][turns])
        if game_id in self.lost:
            return call_of("look")
        if game_id not in self.stumbles:
            return call_of(solution[turns])
        return ["look", call_of("go to bed 99"), *map(call_of, solution)][turns]

    async def score(self, tokens: Sequence[int]) -> FloatArray:
        return np.zeros(len(tokens))

    async def aclose(self) -> None:
        self.closed = True
