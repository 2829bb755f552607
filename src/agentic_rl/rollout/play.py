"""One episode as the agent lives it, from its first prompt to its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agentic_rl.dialogue.prompts import SYSTEM_PROMPT, TurnStatus, first_message, shown_actions, tool_message
from agentic_rl.dialogue.tool import ToolCall, parse_tool_call
from agentic_rl.errors import ConfigError
from agentic_rl.games.interface import GameEntry, StepResult
from agentic_rl.policy.protocol import Completion
from agentic_rl.rollout.config import RolloutConfig
from agentic_rl.rollout.environment import LiveEpisode
from agentic_rl.rollout.progress import PlayListener
from agentic_rl.rollout.requests import Requests
from agentic_rl.rollout.seeds import derive_seed
from agentic_rl.rollout.trajectory import StopReason, Trajectory, Turn

if TYPE_CHECKING:
    from agentic_rl.dialogue import ChatFormat, Transcript


@dataclass(frozen=True, slots=True)
class FirstPrompt:
    """What all branches of a group see first."""

    task: str
    observation: str
    system: str
    user: str

    @classmethod
    def of(cls, start: StepResult, config: RolloutConfig) -> FirstPrompt:
        """What an agent is told about a game that has just been reset."""
        from agentic_rl.games import task_of

        task = task_of(start.observation)
        actions = shown_actions(start.admissible_actions) if config.include_admissible_actions else None
        return cls(task, start.observation, SYSTEM_PROMPT, first_message(task, start.observation, actions))


def check_room(first_prompt_length: int, entry: GameEntry, config: RolloutConfig) -> None:
    """Refuse a token limit that leaves no room for a first turn."""
    if first_prompt_length >= config.max_trajectory_tokens:
        raise ConfigError(
            f"the first prompt of {entry.game_id} has {first_prompt_length} tokens, but a trajectory may have "
            f"{config.max_trajectory_tokens} in all",
            hint="Raise --max-trajectory-tokens.",
        )


@dataclass(frozen=True, slots=True)
class Branch:
    """One trajectory in the making: which one of which group, and with what it is played.

    `seed_key` stands for the game in the seeds.
    """

    entry: GameEntry
    group_id: str
    index: int
    update: int
    seed_key: str
    config: RolloutConfig
    chat: ChatFormat
    requests: Requests
    progress: PlayListener

    def name(self, turn: int) -> str:
        """For messages: game, branch and turn."""
        return f"{self.entry.game_id}, branch {self.index}, turn {turn}"

    async def play(
        self, episode: LiveEpisode, start: StepResult, first: FirstPrompt, transcript: Transcript, opening: Completion
    ) -> Trajectory:
        """Play an episode that has been reset to its end, beginning with a completion of its first prompt.

        `transcript` holds the first prompt and becomes this branch's own: the caller forks it.
        """
        turns: list[Turn] = []
        sampled: list[Sequence[int]] = []
        state, prompt, completion = start, transcript.prompt, opening
        while True:
            turn, after, reason = await self._turn(len(turns) + 1, episode, state, len(prompt), completion)
            turns.append(turn)
            sampled.append(completion.tokens)
            self.progress.on_turn()
            if reason is not None:
                tokens = [*prompt, *completion.tokens]
                break
            transcript.add_turn(completion.tokens, turn.tool_response)
            prompt = transcript.prompt
            if len(prompt) >= self.config.max_trajectory_tokens:
                reason = StopReason.TRAJECTORY_TOO_LONG
                tokens = prompt[: turn.end]
                break
            completion = await self._next_completion(prompt, turn.step + 1)
            state = after
        _check_spans(tokens, turns, sampled)
        return Trajectory(
            game=self.entry,
            group_id=self.group_id,
            group_index=self.index,
            task=first.task,
            initial_observation=first.observation,
            system=first.system,
            user=first.user,
            tokens=np.asarray(tokens, dtype=np.int64),
            turns=tuple(turns),
            stop_reason=reason,
        )

    async def _turn(
        self, step: int, episode: LiveEpisode, state: StepResult, start: int, completion: Completion
    ) -> tuple[Turn, StepResult, StopReason | None]:
        """Carry out what was sampled. Also gives the new state, and why the episode is over if it is."""
        text = self.chat.decode(completion.tokens)
        call = parse_tool_call(text)
        admissible = call.action in state.admissible_actions
        after = await episode.step(call.action or "")  # a malformed turn takes a step too, in which nothing happens
        reason = self._reason_to_stop(after, step)
        listed = reason is None and self.config.include_admissible_actions
        turn = Turn(
            step=step,
            observation=state.observation,
            admissible_actions=shown_actions(state.admissible_actions),
            assistant_text=text,
            call_id=f"call_{step}",
            action=call.action,
            valid_format=call.valid,
            admissible=admissible,
            tool_response=tool_message(
                step,
                _status(call, admissible, after, over=reason is not None),
                after.observation,
                shown_actions(after.admissible_actions) if listed else None,
            ),
            next_observation=after.observation,
            environment_score=after.score,
            done=after.done,
            won=after.won,
            start=start,
            end=start + len(completion.tokens),
            logprobs=np.asarray(completion.logprobs, dtype=np.float64),
        )
        return turn, after, reason

    async def _next_completion(self, prompt: Sequence[int], turn: int) -> Completion:
        seed = derive_seed(self.config.seed, update=self.update, game_id=self.seed_key, branch=self.index, turn=turn)
        (completion,) = await self.requests.sample(prompt, 1, seed=seed, what=f"sampling {self.name(turn)}")
        return completion

    def _reason_to_stop(self, after: StepResult, step: int) -> StopReason | None:
        if after.won:
            return StopReason.WON
        if after.done:
            return StopReason.ENVIRONMENT_DONE
        return self.config.turn_limit_reason if step == self.config.max_turns else None


def _status(call: ToolCall, admissible: bool, after: StepResult, *, over: bool) -> TurnStatus:
    if after.won:
        return TurnStatus.TASK_DONE
    if over:
        return TurnStatus.EPISODE_OVER
    if not call.valid:
        return TurnStatus.MALFORMED
    return TurnStatus.EXECUTED if admissible else TurnStatus.NOT_ADMISSIBLE


def _check_spans(tokens: Sequence[int], turns: Sequence[Turn], sampled: Sequence[Sequence[int]]) -> None:
    """Token ids are the truth: what was sampled stands in the sequence, untouched, where the turns say."""
    for turn, ids in zip(turns, sampled, strict=True):
        if list(tokens[turn.start : turn.end]) != list(ids):
            raise RuntimeError(f"the transcript changed what was sampled in turn {turn.step}")
