"""What fails is tried again, then costs one trajectory; only when nothing is left does an update fail."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
from failing_games import FailingGame
from scripted_sampler import Request, ScriptedSampler, Tally, expert

from agentic_rl.dialogue import ChatFormat
from agentic_rl.errors import BackendError, ConfigError, SkillsError
from agentic_rl.games.interface import Episode, GameEntry
from agentic_rl.policy.protocol import Completion, FinishReason, SamplingParams
from agentic_rl.rollout import Rollout, RolloutConfig, Trajectory, attempts, derive_seed, run_groups
from agentic_rl.rollout.seeds import FIRST_REQUEST

TIMEOUT_S = 20.0


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "FIRST_PAUSE_S", 0.0)


def play(games: list[GameEntry], sampler: ScriptedSampler, config: RolloutConfig, **options: object) -> Rollout:
    async def scenario() -> Rollout:
        async with asyncio.timeout(TIMEOUT_S):
            return await run_groups(games, sampler, sampler.chat, config, update=1, **options)  # type: ignore[arg-type]

    return asyncio.run(scenario())


class Failing:
    """A hook that fails requests with some seeds, at most `times` times each."""

    def __init__(self, *seeds: int, times: int = 1000, error: Exception | None = None) -> None:
        self.left = dict.fromkeys(seeds, times)
        self.error = error or ConnectionResetError("the line went dead")

    async def __call__(self, request: Request) -> None:
        if self.left.get(request.params.seed, 0) > 0:
            self.left[request.params.seed] -= 1
            raise self.error


def seed_of(game: GameEntry, branch: int, turn: int) -> int:
    return derive_seed(7, update=1, game_id=game.game_id, branch=branch, turn=turn)


def group_sizes(rollout: Rollout) -> dict[str, tuple[int, int]]:
    return {group.game.game_id: (len(group.trajectories), group.dropped) for group in rollout.groups}


# Samples -----------------------------------------------------------------------------------------------------------


def test_a_failed_sample_is_tried_again(games: list[GameEntry], chat: ChatFormat, config: RolloutConfig) -> None:
    hook = Failing(seed_of(games[0], 1, 2), times=config.sample_retries)
    rollout = play(games, ScriptedSampler(chat, expert(games), hook), config)
    assert rollout.dropped_trajectories == 0
    assert rollout.failed_requests == config.sample_retries
    assert group_sizes(rollout) == {game.game_id: (3, 0) for game in games}


def test_a_sample_that_goes_on_failing_costs_its_trajectory_only(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    tally = Tally()
    hook = Failing(seed_of(games[0], 1, 2))
    rollout = play(games, ScriptedSampler(chat, expert(games), hook), config, progress=tally)
    assert group_sizes(rollout) == {games[0].game_id: (2, 1)} | {game.game_id: (3, 0) for game in games[1:]}
    assert [trajectory.group_index for trajectory in rollout.groups[0].trajectories] == [0, 2]
    assert (rollout.dropped_trajectories, rollout.left_out_groups) == (1, 0)
    assert tally.dropped == 1
    (failure,) = rollout.failures
    for part in (games[0].game_id, "branch 1", "turn 2", "3 tries", "the line went dead"):
        assert part in failure


def test_a_group_below_two_is_left_out(games: list[GameEntry], chat: ChatFormat, config: RolloutConfig) -> None:
    hook = Failing(seed_of(games[0], 0, 2), seed_of(games[0], 2, 3))
    rollout = play(games, ScriptedSampler(chat, expert(games), hook), config)
    assert list(group_sizes(rollout)) == [game.game_id for game in games[1:]]
    assert (rollout.dropped_trajectories, rollout.left_out_groups) == (2, 1)


def test_groups_of_one_are_groups(games: list[GameEntry], chat: ChatFormat, config: RolloutConfig) -> None:
    hook = Failing(seed_of(games[0], 0, 2))
    rollout = play(games, ScriptedSampler(chat, expert(games), hook), replace(config, group_size=1))
    assert group_sizes(rollout) == {game.game_id: (1, 0) for game in games[1:]}
    assert rollout.left_out_groups == 1


def test_a_failed_first_request_costs_its_group_only(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    first = derive_seed(7, update=1, game_id=games[2].game_id, branch=FIRST_REQUEST, turn=0)
    sampler = ScriptedSampler(chat, expert(games), Failing(first))
    rollout = play(games, sampler, config)
    assert games[2].game_id not in group_sizes(rollout)
    assert (rollout.dropped_trajectories, rollout.left_out_groups) == (3, 1)
    assert len(rollout.failures) == 1
    assert "all branches, turn 1" in rollout.failures[0]
    assert sum(request.params.seed == first for request in sampler.requests) == 1 + config.sample_retries


def test_when_nothing_is_left_the_update_fails_and_says_why(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    async def hook(request: Request) -> None:
        raise ConnectionResetError("the line went dead")

    with pytest.raises(BackendError, match=r"not one of 12 trajectories .* the line went dead") as caught:
        play(games, ScriptedSampler(chat, hook=hook), config)
    assert "\n" not in str(caught.value)


def test_a_sample_that_takes_too_long_is_named_with_game_branch_and_turn(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    async def hook(request: Request) -> None:
        if request.params.seed == seed_of(games[1], 2, 3):
            await asyncio.Event().wait()

    limited = replace(config, sample_timeout_s=1, sample_retries=1)  # others answer in milliseconds
    rollout = play(games, ScriptedSampler(chat, expert(games), hook), limited)
    assert group_sizes(rollout)[games[1].game_id] == (2, 1)
    (failure,) = rollout.failures
    for part in (games[1].game_id, "branch 2", "turn 3", "no answer within 1 s"):
        assert part in failure


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ([], "0 completions instead of 1"),
        ([Completion((1, 2), (-1.0,), FinishReason.STOP)], "1 log-probs for 2 tokens"),
        ([Completion((1,), (float("nan"),), FinishReason.STOP)], "not a finite number"),
        ([Completion((1,) * 61, (-1.0,) * 61, FinishReason.STOP)], "61 tokens where 60"),
    ],
)
def test_a_sampler_that_answers_nonsense_has_failed(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig, answer: list[Completion], complaint: str
) -> None:
    class Nonsense(ScriptedSampler):
        async def sample(self, prompt: object, n: int, params: SamplingParams) -> list[Completion]:
            if params.seed == seed_of(games[0], 0, 2):
                return answer
            return await super().sample(prompt, n, params)  # type: ignore[arg-type]

    rollout = play(games[:1], Nonsense(chat, expert(games)), config)
    assert rollout.dropped_trajectories == 1
    assert complaint in rollout.failures[0]


def test_what_the_user_must_mend_is_not_taken_for_a_failed_sample(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    hook = Failing(seed_of(games[0], 0, 2), error=ConfigError("the model reads 100 tokens only"))
    with pytest.raises(ConfigError, match="reads 100 tokens only"):
        play(games, ScriptedSampler(chat, expert(games), hook), config)


# What follows a trajectory -----------------------------------------------------------------------------------------


def test_a_trajectory_whose_follow_up_fails_is_dropped(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    async def on_trajectory(trajectory: Trajectory) -> None:
        if (trajectory.game.game_id, trajectory.group_index) == (games[0].game_id, 2):
            raise BackendError("scoring is down")

    rollout = play(games, ScriptedSampler(chat, expert(games)), config, on_trajectory=on_trajectory)
    assert group_sizes(rollout)[games[0].game_id] == (2, 1)
    assert "scoring is down" in rollout.failures[0]


@pytest.mark.parametrize("error", [SkillsError("no skill for this task"), OSError("no space left"), KeyError("a slip")])
def test_any_other_error_of_a_follow_up_ends_the_rollout(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig, error: Exception
) -> None:
    async def on_trajectory(trajectory: Trajectory) -> None:
        raise error

    with pytest.raises(type(error), match=r"no s|slip"):
        play(games, ScriptedSampler(chat, expert(games)), config, on_trajectory=on_trajectory)


# Environments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [-1, 0, 2], ids=["opening", "reset", "step"])
@pytest.mark.parametrize("blocking", [False, True])
def test_an_environment_that_dies_costs_its_trajectory_only(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig, step: int, blocking: bool
) -> None:
    game = FailingGame(games[0], lambda episode, at: episode == 1 and at == step, blocking=blocking)
    panel: list[GameEntry] = [game, *map(FailingGame, games[1:])]
    rollout = play(panel, ScriptedSampler(chat, expert(games)), replace(config, engine="fragile"))
    assert group_sizes(rollout)[game.game_id] == (2, 1)
    assert rollout.dropped_trajectories == 1
    assert "process died" in rollout.failures[0]
    assert game.game_id in rollout.failures[0]
    assert game.opened == game.closed == 3


def test_any_error_of_an_environment_counts_as_its_death(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    game = FailingGame(games[0], lambda episode, at: episode == 2 and at == 1, error=BrokenPipeError("pipe closed"))
    rollout = play([game], ScriptedSampler(chat, expert(games)), replace(config, engine="fragile"))
    assert rollout.dropped_trajectories == 1
    assert "BrokenPipeError: pipe closed" in rollout.failures[0]


def test_an_episode_that_begins_elsewhere_than_its_group_is_dropped(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    class Fickle(FailingGame):
        def open(self, engine: str = "simulator") -> Episode:
            self.opened += 1
            return games[1].open() if engine != "simulator" and self.opened == 3 else self.entry.open()

    rollout = play([Fickle(games[0], opened=-1)], ScriptedSampler(chat), replace(config, engine="fragile", max_turns=2))
    assert rollout.dropped_trajectories == 1
    assert "began in another state" in rollout.failures[0]


def test_blocking_environments_are_stepped_in_threads_and_at_the_same_time(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    game = FailingGame(games[0], blocking=True, step_s=0.05)
    many = replace(config, engine="fragile", group_size=8, max_turns=3)

    async def scenario() -> float:
        began = asyncio.get_running_loop().time()
        await run_groups([game], ScriptedSampler(chat), chat, many, update=1)
        return asyncio.get_running_loop().time() - began

    assert asyncio.run(scenario()) < 8 * 4 * 0.05 / 2
    assert all(name.startswith("environment") for name in game.stepping_threads)
    assert game.opened == game.closed == 8


# Interruption ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocking", [False, True])
def test_an_interrupted_rollout_closes_every_episode(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig, blocking: bool
) -> None:
    game = FailingGame(games[0], blocking=blocking, step_s=0.01)

    async def scenario() -> None:
        stuck = asyncio.Event()

        async def hook(request: Request) -> None:
            if request.turn == 2:
                stuck.set()
                await asyncio.Event().wait()

        sampler = ScriptedSampler(chat, expert(games), hook)
        fragile = replace(config, engine="fragile")
        rollout = asyncio.create_task(run_groups([game], sampler, chat, fragile, update=1))
        await stuck.wait()
        rollout.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rollout

    asyncio.run(scenario())
    assert 1 <= game.opened == game.closed


def test_an_episode_that_was_still_opening_is_closed_too(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    door = threading.Event()
    game = FailingGame(games[0], blocking=True, door=door)

    async def scenario() -> None:
        rollout = asyncio.create_task(
            run_groups([game], ScriptedSampler(chat), chat, replace(config, engine="fragile"), update=1)
        )
        async with asyncio.timeout(TIMEOUT_S):
            while game.opening < config.group_size:
                await asyncio.sleep(0.01)
            rollout.cancel()
            with pytest.raises(asyncio.CancelledError):
                await rollout
            assert game.opened == 0
            door.set()
            while game.closed < config.group_size:
                await asyncio.sleep(0.01)

    asyncio.run(scenario())
    assert game.opened == game.closed == config.group_size
