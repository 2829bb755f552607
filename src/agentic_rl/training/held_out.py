"""Success on games the run never trains on: before, every few updates, and at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentic_rl.evaluation import evaluate
from agentic_rl.games.interface import GameEntry
from agentic_rl.policy.protocol import Policy
from agentic_rl.report.learning import LearningPoint, learning_curve
from agentic_rl.results import Results, Summary, compare, panel_hash, read_results, summarize, write_records
from agentic_rl.results.summary import split_metrics
from agentic_rl.rollout import RolloutConfig, RolloutProgress
from agentic_rl.rollout.trajectory import Trajectory
from agentic_rl.training.config import TrainConfig

if TYPE_CHECKING:
    from agentic_rl.dialogue import ChatFormat


class HeldOut:
    """The evaluations of one run, each in a file of its own under `evaluations/`.

    Every evaluation plays the same games with the same random numbers, so that two of them differ by the weights
    alone and their games can be compared in pairs. One that is on disk is not played again.
    """

    def __init__(
        self,
        config: TrainConfig,
        games: Sequence[GameEntry],
        chat: ChatFormat,
        rollout_config: RolloutConfig,
        reward: Callable[[Trajectory], float],
        folder: Path,
    ) -> None:
        self._config = config
        self._games = games
        self._chat = chat
        self._rollout_config = replace(rollout_config, temperature=config.eval_temperature, top_p=1.0)
        self._reward = reward
        self._folder = folder

    def is_due(self, update: int) -> bool:
        """Whether the weights after `update` are to be evaluated and have not been yet."""
        every = self._config.eval_every
        wanted = bool(every) and (update % every == 0 or update == self._config.max_steps)
        return wanted and bool(self._games) and not self._file(update).exists()

    async def evaluate(self, policy: Policy, update: int, progress: RolloutProgress) -> Mapping[str, float]:
        """Play the panel with the weights after `update`, if that is due; its metrics."""
        if not self.is_due(update):
            return {}
        progress.phase("evaluation")
        sampler = await policy.snapshot()
        try:
            records = await evaluate(
                self._games, sampler, self._chat, self._rollout_config, reward=self._reward, progress=progress
            )
        finally:
            await sampler.aclose()
        if not records:
            return {}
        summary = Summary(
            base_model=self._config.base_model,
            model_path=None if update == 0 else f"{self._config.run_name}, update {update}",
            skill_free=True,
            metrics=summarize(records),
            panel=panel_hash(record.game_id for record in records),
        )
        write_records(self._file(update), records, summary)
        metrics = split_metrics(records)
        won = sum(record.won for record in records)
        progress.write(
            f"held-out games after update {update}: {won} of {len(records)} won ({won / len(records):.1%}), "
            f"valid actions {metrics['admissible_action_rate']:.1%}"
        )
        return {f"eval/{self._config.eval_split}/{name}": value for name, value in metrics.items()}

    def report(self) -> str | None:
        """Draw the curve and say in one line what was learned; None if there are not two evaluations to compare."""
        played = self._played()
        if len(played) < 2:
            return None
        curve = self._folder.parent / "learning_curve.png"
        points = [
            LearningPoint(update, sum(record.won for record in results.records), len(results.records))
            for update, results in played.items()
        ]
        learning_curve(points, curve, title=f"{self._config.run_name}: success on held-out games")
        (first, before), *_, (last, after) = played.items()
        shared = {r.game_id for r in before.records} & {r.game_id for r in after.records}
        difference = compare(
            [r for r in before.records if r.game_id in shared], [r for r in after.records if r.game_id in shared]
        )
        low, high = difference.interval
        return (
            f"success on {difference.games} held-out games: {difference.before:.1%} after update {first}, "
            f"{difference.after:.1%} after update {last}: {difference.difference * 100:+.1f} points "
            f"(95 % interval {low * 100:+.1f} to {high * 100:+.1f}); curve: {curve}"
        )

    def _played(self) -> dict[int, Results]:
        """Every evaluation on disk, by update."""
        found = {}
        for file in self._folder.glob("update-*.jsonl"):
            if match := re.fullmatch(r"update-(\d+)\.jsonl", file.name):
                found[int(match[1])] = read_results(file)
        return dict(sorted(found.items()))

    def _file(self, update: int) -> Path:
        return self._folder / f"update-{update:05d}.jsonl"
