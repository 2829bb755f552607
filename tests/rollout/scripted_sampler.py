"""A sampler whose words, delays and failures a test decides, and a listener that counts."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from agentic_rl.dialogue import ChatFormat
from agentic_rl.games import SimulatedEpisode, solve_from
from agentic_rl.games.interface import GameEntry
from agentic_rl.policy.protocol import Completion, FinishReason, FloatArray, SamplingParams
from agentic_rl.rollout.trajectory import Trajectory


def call_of(action: str) -> str:
    return (
        f"<tool_call>\n<function=alfworld_step>\n<parameter=action>\n{action}\n</parameter>\n</function>\n</tool_call>"
    )


LOOK = call_of("look")


@dataclass(frozen=True)
class Request:
    """What the sampler was asked. `turn` counts from 1, as the prompt shows."""

    prompt: tuple[int, ...]
    n: int
    params: SamplingParams
    text: str
    turn: int


type Script = Callable[[Request, int], str]
type Hook = Callable[[Request], Awaitable[None]]


def expert(entries: Iterable[GameEntry]) -> Script:
    """Says what a shortest solution does."""
    solutions: dict[str, Sequence[str]] = {}
    for entry in entries:
        episode = entry.open()
        observation = episode.reset().observation
        assert isinstance(episode, SimulatedEpisode)
        solution = solve_from(episode)
        assert solution is not None
        solutions[observation] = solution

    def speak(request: Request, branch: int) -> str:
        solution = next(actions for observation, actions in solutions.items() if observation in request.text)
        return call_of(solution[request.turn - 1])

    return speak


def looks_around(request: Request, branch: int) -> str:
    return LOOK


@dataclass
class ScriptedSampler:
    """Says `script(request, completion)`, after whatever `hook(request)` does: wait, or raise."""

    chat: ChatFormat
    script: Script = looks_around
    hook: Hook | None = None
    stop: bool = True
    requests: list[Request] = field(default_factory=list)
    scored: list[tuple[int, ...]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    id: str = "scripted"

    async def sample(self, prompt: Sequence[int], n: int, params: SamplingParams) -> list[Completion]:
        text = self.chat.decode(prompt)
        request = Request(tuple(prompt), n, params, text, 1 + text.count("Status: "))
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0)
            if self.hook is not None:
                await self.hook(request)
        finally:
            self.in_flight -= 1
        return [self._completion(self.script(request, j), params) for j in range(n)]

    async def score(self, tokens: Sequence[int]) -> FloatArray:
        """Log-probs that depend on a token and on all before it."""
        self.scored.append(tuple(tokens))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0.001)
        self.in_flight -= 1
        state = hashlib.blake2b(digest_size=8)
        logprobs = np.zeros(len(tokens))
        for i, token in enumerate(tokens):
            state.update(int(token).to_bytes(8, "big"))
            logprobs[i] = -int.from_bytes(state.digest()[:4], "big") / 2**32 if i else 0.0
        return logprobs

    async def aclose(self) -> None:
        pass

    def _completion(self, text: str, params: SamplingParams) -> Completion:
        tokens = self.chat.tokenizer.encode(text, add_special_tokens=False)
        if self.stop:
            tokens.append(params.stop_token_ids[0])
        reason = FinishReason.STOP if len(tokens) <= params.max_tokens else FinishReason.LENGTH
        tokens = tokens[: params.max_tokens]
        return Completion(tuple(tokens), tuple(-0.5 - 0.25 * (i % 2) for i in range(len(tokens))), reason)


@dataclass
class Tally:
    """A listener that counts."""

    started: int = 0
    turns: int = 0
    ended: list[Trajectory] = field(default_factory=list)
    dropped: int = 0

    def on_start(self, trajectories: int) -> None:
        self.started += trajectories

    def on_turn(self) -> None:
        self.turns += 1

    def on_trajectory_end(self, trajectory: Trajectory) -> None:
        self.ended.append(trajectory)

    def on_trajectory_dropped(self) -> None:
        self.dropped += 1
