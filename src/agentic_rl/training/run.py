"""From a config to a finished run: what is checked first, what is opened, and what is closed whatever happens."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentic_rl.config import as_json
from agentic_rl.errors import ConfigError
from agentic_rl.games import shuffled
from agentic_rl.games.interface import GameEntry
from agentic_rl.games.source import load_entries
from agentic_rl.results.panel import choose_games, panel_hash
from agentic_rl.rollout.trajectory import StopReason
from agentic_rl.training.config import TrainConfig
from agentic_rl.training.recipe import Recipe
from agentic_rl.training.run_directory import Checkpoint, RunDirectory, find_state

if TYPE_CHECKING:
    from agentic_rl.policy.protocol import Policy


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is known before a model is loaded or a token is bought.

    Attributes
    ----------
    games
        The training games in the order they are played, round and round.
    held_out
        The games of `--eval-every`; empty if it is off.
    resumed
        The save this run goes on from, and the folder of the run that made it, if one under `--run-dir` did.
    """

    games: Sequence[GameEntry]
    held_out: Sequence[GameEntry]
    resumed: tuple[Path, Checkpoint] | None

    def to_play(self, config: TrainConfig) -> list[GameEntry]:
        """The games that the rest of the run will play, each once."""
        first, last = ((update - 1) * config.games_per_update for update in (self.first_update, config.max_steps + 1))
        return [self.games[k % len(self.games)] for k in range(first, min(last, first + len(self.games)))]

    @property
    def first_update(self) -> int:
        return 1 if self.resumed is None else self.resumed[1].update + 1


def train(config: TrainConfig, make_recipe: Callable[[Policy], Recipe], *, turn_limit_reason: StopReason) -> int:
    """Run a training from its config to its last checkpoint; the exit code.

    Ctrl-C ends the phase it falls in, saves what was learned and says how to go on; a second one ends at once.
    """
    plan = make_plan(config)
    if config.temperature != 1 or config.top_p != 1:
        print(
            f"warning: sampling at temperature {config.temperature:g} and top-p {config.top_p:g}, but the ratio of PPO "
            "takes log-probs of the model itself (temperature 1, top-p 1): the update is off-policy by that much",
            file=sys.stderr,
        )
    if config.dry_run:
        print(describe(config, plan))
        return 0
    asyncio.run(_train(config, plan, make_recipe, turn_limit_reason))
    return 0


def make_plan(config: TrainConfig) -> Plan:
    """Resolve games and resume point.

    Raises
    ------
    ConfigError, DatasetError
        No game to play, too few of them, or nothing left to do.
    """
    games = shuffled(load_entries(config.games, config.data_root, [config.train_split]), config.seed)
    if config.max_train_games:
        games = games[: config.max_train_games]
    if not games:
        raise ConfigError(f"the split {config.train_split!r} has no game to train on")
    held_out: Sequence[GameEntry] = ()
    if config.eval_every:
        pool = load_entries(config.games, config.data_root, [config.eval_split])
        held_out = choose_games(pool, limit_per_split=config.eval_games, seed=0)
    resumed = find_state(config.run_dir, config.resume) if config.resume else None
    plan = Plan(games=games, held_out=held_out, resumed=resumed)
    if plan.first_update > config.max_steps:
        raise ConfigError(
            f"{config.resume} was saved after update {plan.first_update - 1} and --max-steps is {config.max_steps}",
            hint="Raise --max-steps: it counts from the start of the run",
        )
    return plan


def describe(config: TrainConfig, plan: Plan) -> str:
    """What `--dry-run` prints: the resolved config and the work it implies."""
    updates = config.max_steps - plan.first_update + 1
    trajectories = config.games_per_update * config.group_size
    lines = [
        json.dumps(as_json(config), indent=2),
        f"games: {len(plan.games)} to train on (panel {panel_hash(game.game_id for game in plan.games)}), "
        f"{len(plan.held_out)} held out",
        f"updates: {plan.first_update} to {config.max_steps}, {trajectories} trajectories each, "
        f"{updates * trajectories} in all, at most {updates * trajectories * config.turn_limit} turns",
        f"sampled tokens: at most {updates * trajectories * config.turn_limit * config.turn_tokens}",
        f"run directory: {_run_path(config, plan)}",
    ]
    return "\n".join(lines)


async def _train(
    config: TrainConfig, plan: Plan, make_recipe: Callable[[Policy], Recipe], turn_limit_reason: StopReason
) -> None:
    from agentic_rl.dialogue import ChatFormat
    from agentic_rl.policy import open_policy
    from agentic_rl.policy.settle import settle_memory
    from agentic_rl.rollout import RolloutConfig
    from agentic_rl.rollout.runner import check_first_prompts
    from agentic_rl.tracking import Tracker
    from agentic_rl.training.held_out import HeldOut
    from agentic_rl.training.loop import Loop

    async with AsyncExitStack() as resources:
        run = resources.enter_context(_open_run(config, plan))
        # A login that SwanLab lacks costs nothing yet; a policy of the service does.
        tracker = Tracker(
            run.metrics_path,
            mode=config.swanlab_mode,
            project=config.swanlab_project,
            name=config.run_name,
            log_dir=run.path / "swanlab",
            config=as_json(config),
        )
        resources.push(tracker)
        policy = open_policy(config.backend, config.base_model, **_policy_options(config, run))
        resources.push_async_callback(policy.aclose)
        _check_length(config, policy)
        chat = ChatFormat.from_tokenizer(policy.tokenizer)
        recipe = make_recipe(policy)
        how = RolloutConfig.of(
            config,
            group_size=config.group_size,
            max_live=config.live_trajectories,
            turn_limit_reason=turn_limit_reason,
        )
        check_first_prompts(plan.to_play(config), chat, how)
        run.begin(
            as_json(config),
            after=plan.first_update - 1,
            games=len(plan.games),
            panel_hash=panel_hash(game.game_id for game in plan.games),
        )
        settle_memory()
        held_out = HeldOut(config, plan.held_out, chat, how, recipe.reward, run.path / "evaluations")
        loop = Loop(config, recipe, policy, chat, run, tracker, how)
        final = await loop.run(plan.games, held_out, first_update=plan.first_update)
        if learned := held_out.report():
            trajectories = run.path / "trajectories"
            print(f"{learned}; checkpoint: {final.sampler}; trajectories: {trajectories}", flush=True)


def _policy_options(config: TrainConfig, run: RunDirectory) -> dict[str, Any]:
    options: dict[str, Any] = {
        "run_dir": run.path,
        "lora_rank": config.lora_rank,
        "seed": config.seed,
        "train_unembed": config.train_unembed,
        "resume_from": config.resume,
    }
    if config.backend == "pytrio":
        options |= {
            "probe": config.probe,
            "loss_reduction": config.service_reduction,
            "sample_timeout_s": config.sample_timeout,
            "max_trajectory_tokens": config.sequence_limit,
            "group_size": config.group_size,
        }
    return options


def _open_run(config: TrainConfig, plan: Plan) -> RunDirectory:
    if plan.resumed is None:
        return RunDirectory.create(config.run_dir, config.run_name)
    return RunDirectory.reopen(plan.resumed[0])


def _run_path(config: TrainConfig, plan: Plan) -> Path:
    return config.run_dir / config.run_name if plan.resumed is None else plan.resumed[0]


def _check_length(config: TrainConfig, policy: Policy) -> None:
    limit = policy.max_sequence_tokens
    if limit is not None and config.sequence_limit > limit:
        raise ConfigError(
            f"sequences may take {config.sequence_limit} tokens here and {config.base_model} takes {limit}",
            hint=f"Lower --max-trajectory-tokens by {config.sequence_limit - limit} or more",
        )
