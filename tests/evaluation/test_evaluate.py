"""Every game of a panel is played once, and its record says what happened."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from walkthrough import Walkthrough

from agentic_rl.dialogue import ChatFormat
from agentic_rl.errors import ResultsError
from agentic_rl.evaluation import evaluate
from agentic_rl.games import discover, expert_steps
from agentic_rl.games.interface import GameEntry
from agentic_rl.results import TrajectoryRecord
from agentic_rl.rollout import RolloutConfig, StopReason, Trajectory


def reward(trajectory: Trajectory) -> float:
    return float(trajectory.won) - 0.1 * trajectory.invalid_action_count


def played(
    sampler: Walkthrough, config: RolloutConfig, on_record: list[TrajectoryRecord] | None = None
) -> list[TrajectoryRecord]:
    keep = None if on_record is None else on_record.append
    return asyncio.run(evaluate(sampler.games, sampler, sampler.chat, config, reward=reward, on_record=keep))


def test_every_game_is_played_once_and_won_by_its_solution(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    records = played(Walkthrough(chat, games), config)
    assert [record.game_id for record in records] == sorted(game.game_id for game in games)
    assert all(record.won and not record.truncated and record.stop_reason == "won" for record in records)
    assert all(len(record.steps) == record.expert_steps for record in records)


def test_a_record_says_which_game_it_was(chat: ChatFormat, games: list[GameEntry], config: RolloutConfig) -> None:
    records = {record.game_id: record for record in played(Walkthrough(chat, games), config)}
    for game in games:
        record = records[game.game_id]
        assert (record.split, record.evaluation_split) == (game.split, game.split)
        assert (record.task_type, record.game_file) == (game.task_type, game.location)
        assert record.task in record.initial_observation
        assert record.expert_steps == expert_steps(game)


def test_invalid_turns_are_counted_and_paid_for(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    clumsy = games[0].game_id
    record = next(r for r in played(Walkthrough(chat, games, stumbles=[clumsy]), config) if r.game_id == clumsy)
    malformed, unavailable, *rest = record.steps
    assert (malformed.valid_format, malformed.admissible, malformed.action) == (False, False, None)
    assert (unavailable.valid_format, unavailable.admissible, unavailable.action) == (True, False, "go to bed 99")
    assert all(step.valid_action for step in rest)
    assert record.invalid_action_count == 2
    assert record.reward == pytest.approx(0.8)
    assert record.expert_steps is not None
    assert len(record.steps) == record.expert_steps + 2


def test_a_lost_game_says_why_it_ended(chat: ChatFormat, games: list[GameEntry], config: RolloutConfig) -> None:
    short = replace(config, max_turns=3, turn_limit_reason=StopReason.MAX_STEPS)
    records = played(Walkthrough(chat, games, lost=[game.game_id for game in games]), short)
    assert {(r.won, r.truncated, r.stop_reason, len(r.steps), r.expert_steps) for r in records} == {
        (False, True, "max_steps", 3, None)
    }


def test_the_dialogue_is_kept_as_chat_models_read_it(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    clumsy = games[0].game_id
    record = next(r for r in played(Walkthrough(chat, games, stumbles=[clumsy]), config) if r.game_id == clumsy)
    system, user, first, answer, second, *_ = record.messages
    assert (system["role"], user["role"]) == ("system", "user")
    assert record.initial_observation in user["content"]
    assert first == {"role": "assistant", "content": "look"}
    assert answer == {
        "role": "tool",
        "tool_call_id": "call_1",
        "name": "alfworld_step",
        "content": record.steps[0].tool_response,
    }
    assert second["tool_calls"][0]["function"] == {"name": "alfworld_step", "arguments": {"action": "go to bed 99"}}
    assert len(record.messages) == 2 + 2 * len(record.steps)


def test_tokens_are_counted_turn_by_turn(chat: ChatFormat, games: list[GameEntry], config: RolloutConfig) -> None:
    record = played(Walkthrough(chat, games[:1]), config)[0]
    system, user = record.messages[0]["content"], record.messages[1]["content"]
    assert record.steps[0].prompt_tokens == len(chat.render_first(system, user))
    for before, after in zip(record.steps, record.steps[1:], strict=False):
        assert after.prompt_tokens > before.prompt_tokens + before.completion_tokens
    assert {step.mean_old_logprob for step in record.steps} == {-0.5}


def test_records_do_not_depend_on_how_many_games_are_played_at_once(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    alone = played(Walkthrough(chat, games), replace(config, max_live=1))
    together = played(Walkthrough(chat, games), replace(config, max_live=None))
    assert alone == together


def test_no_game_waits_for_another(chat: ChatFormat, games: list[GameEntry], config: RolloutConfig) -> None:
    slow = games[0].game_id
    ended: list[TrajectoryRecord] = []

    async def wait(game_id: str) -> None:
        while game_id == slow and len(ended) < len(games) - 1:
            await asyncio.sleep(0.001)

    records = played(Walkthrough(chat, games, before=wait), config, ended)
    assert ended[-1].game_id == slow
    assert len(records) == len(games)


def test_a_game_whose_samples_go_on_failing_is_missing_and_costs_no_other(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    async def fail(game_id: str) -> None:
        if game_id == games[1].game_id:
            raise ConnectionError("the line went dead")

    records = played(Walkthrough(chat, games, before=fail), replace(config, sample_retries=0))
    assert {record.game_id for record in records} == {game.game_id for game in games} - {games[1].game_id}


def test_a_record_that_cannot_be_kept_ends_the_evaluation(
    chat: ChatFormat, games: list[GameEntry], config: RolloutConfig
) -> None:
    def full(record: TrajectoryRecord) -> None:
        raise ResultsError("the disk is full")

    sampler = Walkthrough(chat, games)
    with pytest.raises(ResultsError, match="the disk is full"):
        asyncio.run(evaluate(games, sampler, chat, config, reward=reward, on_record=full))


def test_textworld_and_the_simulator_give_the_same_records(
    chat: ChatFormat, sample_root: Path, config: RolloutConfig
) -> None:
    pytest.importorskip("textworld")
    real = list(discover(sample_root, ["valid_seen"]))[:2]
    simulated = played(Walkthrough(chat, real), config)
    referenced = played(Walkthrough(chat, real), replace(config, engine="textworld"))
    assert simulated == referenced
    assert all(record.won for record in referenced)
