"""The one loop: play, judge, learn, save. It never asks which recipe it runs.

Read `Loop.run` from top to bottom: it is the algorithm. Each phase is a step with a result of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agentic_rl.games.interface import GameEntry
from agentic_rl.policy.protocol import AdamConfig, LossConfig, Policy, Sampler, SavedPaths
from agentic_rl.rollout import Rollout, RolloutConfig, RolloutProgress, run_groups
from agentic_rl.rollout.metrics import rollout_metrics
from agentic_rl.tracking import Tracker
from agentic_rl.training.config import TrainConfig
from agentic_rl.training.datums import batch_metrics, build_datums
from agentic_rl.training.held_out import HeldOut
from agentic_rl.training.recipe import Credit, CreditRule, Recipe
from agentic_rl.training.run_directory import RunDirectory, read_checkpoints
from agentic_rl.training.trajectory_log import trajectory_records

if TYPE_CHECKING:
    from agentic_rl.dialogue import ChatFormat


class Loop:
    """One run's loop over its updates, on an open policy and an open run directory."""

    def __init__(
        self,
        config: TrainConfig,
        recipe: Recipe,
        policy: Policy,
        chat: ChatFormat,
        run: RunDirectory,
        tracker: Tracker,
        how: RolloutConfig,
    ) -> None:
        self.config = config
        self.recipe = recipe
        self.policy = policy
        self.chat = chat
        self.run_directory = run
        self.tracker = tracker
        self.rollout_config = how
        self.loss = LossConfig(config.ppo_clip_low, config.ppo_clip_high, config.loss_reduction)
        self.adam = AdamConfig(
            config.learning_rate,
            beta1=config.beta1,
            beta2=config.beta2,
            weight_decay=config.weight_decay,
            grad_clip_norm=config.grad_clip_norm,
        )
        self.finished = 0
        self.saved = 0

    async def run(self, games: Sequence[GameEntry], held_out: HeldOut, *, first_update: int) -> SavedPaths:
        """Train from `first_update` to `max_steps`; every finished update is on disk before the next begins.

        Returns
        -------
        SavedPaths
            The final save.
        """
        self.finished = self.saved = first_update - 1
        with RolloutProgress(updates=self.config.max_steps, finished=self.finished) as progress:
            try:
                await self._evaluate(held_out, self.finished, progress)
                for update in range(first_update, self.config.max_steps + 1):
                    clock = Clock()
                    with clock("snapshot"):
                        sampler = await self.policy.snapshot()
                    try:
                        rule = self.recipe.credit(sampler, self.chat)
                        with clock("rollout"):
                            progress.begin(update, "rollout")
                            rollout = await self._play(games, sampler, rule, update, progress)
                    finally:
                        await sampler.aclose()
                    with clock("credit"):
                        credit = rule.assign(rollout.groups)
                    await finish_before_cancelling(self._learn(update, rollout, credit, clock, progress))
                    await self._evaluate(held_out, update, progress)
            except BaseException:
                await self._save_what_is_learned(progress)
                raise
            return await self._save("final", progress)

    async def _play(
        self,
        games: Sequence[GameEntry],
        sampler: Sampler,
        rule: CreditRule,
        update: int,
        progress: RolloutProgress,
    ) -> Rollout:
        """Every group of this update: games in order, round and round."""
        first = (update - 1) * self.config.games_per_update
        entries = [games[(first + k) % len(games)] for k in range(self.config.games_per_update)]
        return await run_groups(
            entries,
            sampler,
            self.chat,
            self.rollout_config,
            update=update,
            on_trajectory=rule.observe,
            progress=progress,
        )

    async def _learn(
        self, update: int, rollout: Rollout, credit: Credit, clock: Clock, progress: RolloutProgress
    ) -> None:
        """One optimizer step, then the record of the update, then its checkpoint: never one without the others."""
        datums = build_datums(rollout.groups, credit.turn_advantages)
        learned: Mapping[str, float] = {}
        if datums:
            with clock("update"):
                progress.phase("update")
                learned = await self.policy.update(datums, self.loss, self.adam)
        else:
            progress.write(f"update {update}: every advantage is 0, so the parameter update is skipped")
        self.finished = update
        metrics = {
            **self._rollout_metrics(rollout),
            **credit.metrics,
            **batch_metrics(datums, sampled_name=self.recipe.sampled_name),
            f"train/{self.recipe.checkpoint_word}_skipped": int(not datums),
            "train/logical_steps": update,
            **learned,
        }
        with clock("record"):
            self.run_directory.write_trajectories(update, trajectory_records(rollout.groups, self.recipe, credit))
        if self.config.save_every and update % self.config.save_every == 0:
            with clock("checkpoint"):
                progress.phase("checkpoint")
                await self._save(f"{self.recipe.checkpoint_word}-{update}", progress)
        self.tracker.log(update, {**metrics, **clock.metrics()})
        progress.end(update, metrics)

    async def _evaluate(self, held_out: HeldOut, update: int, progress: RolloutProgress) -> None:
        """Held-out games, where due; their files are the record, SwanLab shows the numbers."""
        if metrics := await held_out.evaluate(self.policy, update, progress):
            self.tracker.mirror(update, metrics)

    def _rollout_metrics(self, rollout: Rollout) -> dict[str, float]:
        rewards = [[self.recipe.reward(t) for t in group.trajectories] for group in rollout.groups]
        return rollout_metrics(rollout, rewards, prefix=self.recipe.rollout_prefix)

    async def _save(self, suffix: str, progress: RolloutProgress) -> SavedPaths:
        """Save state and sampler weights, record them, and print both paths as the eval command takes them."""
        name = f"{self.config.run_name}-{suffix}"
        paths = await self.policy.save(name)
        self.run_directory.record_checkpoint(name, self.finished, paths)
        self.saved = self.finished
        progress.write(f"Saved state: {paths.state}")
        progress.write(f"Saved sampler weights: {paths.sampler}")
        return paths

    async def _save_what_is_learned(self, progress: RolloutProgress) -> None:
        """After Ctrl-C or a failure: updates that no checkpoint holds yet are saved before the process goes."""
        if self.finished > self.saved:
            progress.write(f"stopped: saving the state after update {self.finished} (Ctrl-C to go without)")
            await self._save(f"stopped-{self.recipe.checkpoint_word}-{self.finished}", progress)
        if self.saved:
            state = read_checkpoints(self.run_directory.path)[-1].state
            progress.write(f"go on with: --resume {state}")


class Clock:
    """Seconds by phase, as `time/<phase>_seconds`."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + time.perf_counter() - began

    def metrics(self) -> dict[str, float]:
        seconds = {**self._seconds, "step": time.perf_counter() - self._began}
        return {f"time/{phase}_seconds": value for phase, value in seconds.items()}


async def finish_before_cancelling[T](work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end even if the caller is cancelled meanwhile; the cancellation follows then."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
