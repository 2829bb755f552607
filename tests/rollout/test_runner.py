"""Groups of trajectories: who asks for what, who waits for whom, and when it is over."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from scripted_sampler import LOOK, Request, ScriptedSampler, Tally, call_of, expert

from agentic_rl.dialogue import SYSTEM_PROMPT, ChatFormat, Transcript, TurnStatus
from agentic_rl.errors import ConfigError
from agentic_rl.games.interface import GameEntry
from agentic_rl.rollout import Rollout, RolloutConfig, StopReason, Trajectory, derive_seed, run_groups

TIMEOUT_S = 20.0


async def play(
    games: list[GameEntry], sampler: ScriptedSampler, chat: ChatFormat, config: RolloutConfig, **options: object
) -> Rollout:
    async with asyncio.timeout(TIMEOUT_S):
        return await run_groups(games, sampler, chat, config, update=1, **options)  # type: ignore[arg-type]


def trajectories(rollout: Rollout) -> list[Trajectory]:
    return [trajectory for group in rollout.groups for trajectory in group.trajectories]


def test_an_expert_wins_every_game_and_every_turn_is_recorded(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    sampler = ScriptedSampler(chat, expert(games))
    rollout = asyncio.run(play(games, sampler, chat, config))
    assert [group.game for group in rollout.groups] == games
    for trajectory in trajectories(rollout):
        assert trajectory.stop_reason is StopReason.WON
        assert not trajectory.truncated
        assert trajectory.invalid_action_count == 0
        assert [turn.step for turn in trajectory.turns] == list(range(1, len(trajectory.turns) + 1))
        for turn, following in zip(trajectory.turns, trajectory.turns[1:], strict=False):
            assert following.observation == turn.next_observation
            assert TurnStatus.EXECUTED in turn.tool_response
            assert "help" not in turn.admissible_actions
            assert turn.action in turn.admissible_actions
        last = trajectory.turns[-1]
        assert last.won
        assert last.environment_score == 1.0
        assert TurnStatus.TASK_DONE in last.tool_response
        assert "Available actions" not in last.tool_response
    assert rollout.dropped_trajectories == rollout.left_out_groups == rollout.failed_requests == 0


def test_the_first_turn_of_a_group_is_one_request_and_every_later_turn_one_each(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    sampler = ScriptedSampler(chat, expert(games))
    rollout = asyncio.run(play(games, sampler, chat, config))
    first = [request for request in sampler.requests if request.turn == 1]
    assert [request.n for request in first] == [config.group_size] * len(games)
    later = [request for request in sampler.requests if request.turn > 1]
    assert {request.n for request in later} == {1}
    assert len(later) == sum(len(trajectory.turns) - 1 for trajectory in trajectories(rollout))
    assert rollout.sample_requests == len(sampler.requests)
    assert rollout.prompt_tokens == sum(len(request.prompt) for request in sampler.requests)
    assert rollout.sampled_tokens == sum(t.end - t.start for one in trajectories(rollout) for t in one.turns)


def test_every_prompt_is_a_prefix_of_its_trajectory_and_every_span_holds_what_was_sampled(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    sampler = ScriptedSampler(chat, expert(games))
    rollout = asyncio.run(play(games[:1], sampler, chat, config))
    prompts = {len(request.prompt): list(request.prompt) for request in sampler.requests}
    for trajectory in trajectories(rollout):
        tokens = trajectory.tokens.tolist()
        assert len(tokens) == trajectory.turns[-1].end
        for turn in trajectory.turns:
            assert tokens[: turn.start] == prompts[turn.start]
            assert chat.decode(tokens[turn.start : turn.end]) == turn.assistant_text
            assert turn.logprobs.shape == (turn.end - turn.start,)
        transcript = Transcript(chat, system=trajectory.system, user=trajectory.user)
        assert transcript.prompt == tokens[: trajectory.first_prompt_length]
        assert trajectory.system == SYSTEM_PROMPT


def test_no_trajectory_waits_for_another(games: list[GameEntry], chat: ChatFormat, config: RolloutConfig) -> None:
    """One branch's second turn is answered only after every other trajectory of the update has ended.

    Any barrier, between turns or between groups, would make this wait for ever.
    """
    slow = derive_seed(config.seed, update=1, game_id=games[0].game_id, branch=1, turn=2)

    async def scenario() -> None:
        others_ended = asyncio.Event()
        ended: list[tuple[str, int]] = []

        async def hook(request: Request) -> None:
            if request.params.seed == slow:
                await others_ended.wait()

        async def on_trajectory(trajectory: Trajectory) -> None:
            ended.append((trajectory.game.game_id, trajectory.group_index))
            if len(ended) == len(games) * config.group_size - 1:
                others_ended.set()

        sampler = ScriptedSampler(chat, expert(games), hook)
        rollout = await play(games, sampler, chat, config, on_trajectory=on_trajectory)
        assert ended[-1] == (games[0].game_id, 1)
        assert len(trajectories(rollout)) == len(ended) == len(games) * config.group_size

    asyncio.run(scenario())


def test_what_follows_a_trajectory_begins_while_others_play_and_is_awaited(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    """The second game goes on only once something follows a trajectory of the first."""
    waiting = {
        derive_seed(config.seed, update=1, game_id=games[1].game_id, branch=branch, turn=2)
        for branch in range(config.group_size)
    }

    async def scenario() -> None:
        began = asyncio.Event()
        done: list[Trajectory] = []

        async def hook(request: Request) -> None:
            if request.params.seed in waiting:
                await began.wait()

        async def on_trajectory(trajectory: Trajectory) -> None:
            began.set()
            await asyncio.sleep(0.05)
            done.append(trajectory)

        sampler = ScriptedSampler(chat, expert(games), hook)
        await play(games[:2], sampler, chat, config, on_trajectory=on_trajectory)
        assert len(done) == 2 * config.group_size

    asyncio.run(scenario())


@pytest.mark.parametrize("max_live", [1, 2, 5])
def test_no_more_trajectories_are_played_at_once_than_there_are_slots(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig, max_live: int
) -> None:
    async def hook(request: Request) -> None:
        await asyncio.sleep(0.001)

    sampler = ScriptedSampler(chat, expert(games), hook)
    rollout = asyncio.run(play(games, sampler, chat, replace(config, max_live=max_live)))
    assert sampler.most_in_flight == max_live
    assert len(trajectories(rollout)) == len(games) * config.group_size


def test_a_finished_trajectory_frees_its_slot_at_once(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    """With two slots, one held to the very end, all others pass through the second."""
    slow = derive_seed(config.seed, update=1, game_id=games[0].game_id, branch=0, turn=2)

    async def scenario() -> None:
        others_ended = asyncio.Event()
        ended = 0

        async def hook(request: Request) -> None:
            if request.params.seed == slow:
                await others_ended.wait()

        async def on_trajectory(trajectory: Trajectory) -> None:
            nonlocal ended
            ended += 1
            if ended == len(games) * config.group_size - 1:
                others_ended.set()

        sampler = ScriptedSampler(chat, expert(games), hook)
        await play(games, sampler, chat, replace(config, max_live=2), on_trajectory=on_trajectory)

    asyncio.run(scenario())


def test_a_slow_follow_up_holds_no_slot(games: list[GameEntry], chat: ChatFormat, config: RolloutConfig) -> None:
    async def scenario() -> None:
        followed: list[Trajectory] = []
        all_followed = asyncio.Event()

        async def on_trajectory(trajectory: Trajectory) -> None:
            followed.append(trajectory)
            if len(followed) == len(games) * config.group_size:
                all_followed.set()
            await all_followed.wait()

        sampler = ScriptedSampler(chat, expert(games))
        await play(games, sampler, chat, replace(config, max_live=1), on_trajectory=on_trajectory)

    asyncio.run(scenario())


def test_results_do_not_depend_on_who_answers_first(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    def script(request: Request, branch: int) -> str:
        """What is said depends on the seed, as a sampler's words do."""
        listed = request.text.rsplit("Available actions:\n", 1)[1].split("\n")
        actions = [line for line in listed if line.startswith(("go to", "open", "take", "look"))]
        return call_of(actions[(request.params.seed + branch) % len(actions)])

    def rollout(delays: int) -> list[Trajectory]:
        generator = np.random.default_rng(delays)

        async def hook(request: Request) -> None:
            await asyncio.sleep(generator.uniform(0, 0.002))

        short = replace(config, max_turns=5)
        return trajectories(asyncio.run(play(games, ScriptedSampler(chat, script, hook), chat, short)))

    one, other = rollout(1), rollout(2)
    assert [(t.group_id, t.group_index) for t in one] == [(t.group_id, t.group_index) for t in other]
    assert all(np.array_equal(a.tokens, b.tokens) for a, b in zip(one, other, strict=True))
    assert len({tuple(trajectory.tokens.tolist()) for trajectory in one}) > len(games)


def test_the_same_game_twice_makes_two_groups_with_seeds_of_their_own(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    sampler = ScriptedSampler(chat)
    rollout = asyncio.run(play([games[0], games[0]], sampler, chat, replace(config, max_turns=2)))
    assert len({group.group_id for group in rollout.groups}) == 2
    seeds = [request.params.seed for request in sampler.requests]
    assert len(seeds) == len(set(seeds)) == 2 * (1 + config.group_size)


# When it is over ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [StopReason.MAX_STEPS, StopReason.MAX_TURNS])
def test_the_turn_limit_ends_a_trajectory_under_the_recipe_s_name(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig, reason: StopReason
) -> None:
    limited = replace(config, max_turns=3, turn_limit_reason=reason)
    rollout = asyncio.run(play(games[:1], ScriptedSampler(chat), chat, limited))
    for trajectory in trajectories(rollout):
        assert trajectory.stop_reason is reason
        assert trajectory.truncated
        assert len(trajectory.turns) == 3
        assert TurnStatus.EPISODE_OVER in trajectory.turns[-1].tool_response
        assert "Available actions" not in trajectory.turns[-1].tool_response


def test_a_trajectory_ends_when_the_next_prompt_leaves_no_room(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    sampler = ScriptedSampler(chat)
    free = trajectories(asyncio.run(play(games[:1], sampler, chat, replace(config, max_turns=4))))[0]
    third_prompt = free.turns[2].start
    for limit, turns in [(third_prompt, 2), (third_prompt + 1, 3)]:
        rollout = asyncio.run(play(games[:1], sampler, chat, replace(config, max_trajectory_tokens=limit)))
        for trajectory in trajectories(rollout):
            assert trajectory.stop_reason is StopReason.TRAJECTORY_TOO_LONG
            assert len(trajectory.turns) == turns
            assert len(trajectory.tokens) == trajectory.turns[-1].end <= limit


def test_a_turn_may_not_sample_beyond_the_trajectory_s_limit(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    sampler = ScriptedSampler(chat)
    asyncio.run(play(games[:1], sampler, chat, replace(config, max_trajectory_tokens=300, max_turn_tokens=40)))
    for request in sampler.requests:
        assert request.params.max_tokens == min(40, 300 - len(request.prompt))
        assert request.params.stop_token_ids == chat.stop_token_ids
    assert min(request.params.max_tokens for request in sampler.requests) < 40


def test_a_first_prompt_that_does_not_fit_is_refused_before_anything_is_sampled(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    sampler = ScriptedSampler(chat)
    longest = max(games, key=lambda game: len(game.open().reset().observation))
    others = [game for game in games if game is not longest]
    rollout = asyncio.run(play([longest], sampler, chat, replace(config, max_turns=1)))
    limit = trajectories(rollout)[0].first_prompt_length
    sampler.requests.clear()
    with pytest.raises(ConfigError, match=r"first prompt of .* has \d+ tokens.*--max-trajectory-tokens"):
        asyncio.run(play([*others, longest], sampler, chat, replace(config, max_trajectory_tokens=limit)))
    assert sampler.requests == []


# Turns that go wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["I do not know.", LOOK + LOOK, LOOK + " Done.", ""])
def test_a_malformed_turn_takes_a_step_in_which_nothing_happens(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig, words: str
) -> None:
    sampler = ScriptedSampler(chat, lambda request, branch: words)
    rollout = asyncio.run(play(games[:1], sampler, chat, replace(config, max_turns=2)))
    for trajectory in trajectories(rollout):
        turn = trajectory.turns[0]
        assert not turn.valid_format
        assert not turn.valid_action
        assert turn.action is None
        assert turn.next_observation == "Nothing happens."
        assert TurnStatus.MALFORMED in turn.tool_response
        assert trajectory.invalid_action_count == 2


def test_an_action_that_is_not_available_is_invalid_though_well_formed(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    sampler = ScriptedSampler(chat, lambda request, branch: call_of("take the moon from sky 1"))
    (trajectory, *_) = trajectories(asyncio.run(play(games[:1], sampler, chat, replace(config, max_turns=2))))
    turn = trajectory.turns[0]
    assert turn.valid_format
    assert not turn.admissible
    assert TurnStatus.NOT_ADMISSIBLE in turn.tool_response
    assert trajectory.invalid_action_count == 2


def test_a_sampler_may_say_nothing_at_all(games: list[GameEntry], chat: ChatFormat, config: RolloutConfig) -> None:
    sampler = ScriptedSampler(chat, lambda request, branch: "", stop=False)
    rollout = asyncio.run(play(games[:1], sampler, chat, replace(config, max_turns=2)))
    assert all(turn.start == turn.end for trajectory in trajectories(rollout) for turn in trajectory.turns)


def test_lists_of_actions_can_be_left_out(games: list[GameEntry], chat: ChatFormat, config: RolloutConfig) -> None:
    sampler = ScriptedSampler(chat)
    hidden = replace(config, include_admissible_actions=False, max_turns=3)
    rollout = asyncio.run(play(games[:1], sampler, chat, hidden))
    assert all("Available actions:" not in request.text for request in sampler.requests)
    assert all(turn.admissible_actions for one in trajectories(rollout) for turn in one.turns)


def test_a_listener_hears_of_every_turn_and_every_end(
    games: list[GameEntry], chat: ChatFormat, config: RolloutConfig
) -> None:
    tally = Tally()
    rollout = asyncio.run(play(games, ScriptedSampler(chat, expert(games)), chat, config, progress=tally))
    assert tally.started == len(tally.ended) == len(games) * config.group_size
    assert tally.turns == sum(len(trajectory.turns) for trajectory in trajectories(rollout))
    assert tally.dropped == 0
