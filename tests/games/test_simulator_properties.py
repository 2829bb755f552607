"""What must hold for an episode whatever is typed into it."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rare_house import TASKS, rare_game

from agentic_rl.games import Game, SimulatedEpisode, StepResult

GAMES = {kind: rare_game(kind) for kind in TASKS}
kinds = st.sampled_from(sorted(TASKS))
# An index into the admissible commands of the moment, or something typed.
choices = st.lists(st.one_of(st.integers(0, 200), st.text(max_size=20)), max_size=40)


def command_of(choice: int | str, result: StepResult) -> str:
    return choice if isinstance(choice, str) else result.admissible_actions[choice % len(result.admissible_actions)]


def play(episode: SimulatedEpisode, played: list[int | str]) -> list[StepResult]:
    results = [episode.step("")]
    for choice in played:
        results.append(episode.step(command_of(choice, results[-1])))
    return results


def random_commands(game: Game, seed: int, steps: int) -> list[str]:
    rng, episode = random.Random(seed), game.episode()
    result, commands = episode.reset(), []
    for _ in range(steps):
        commands.append(rng.choice(result.admissible_actions))
        result = episode.step(commands[-1])
    return commands


def transcript(episode: SimulatedEpisode, commands: list[str]) -> list[StepResult]:
    return [episode.reset(), *map(episode.step, commands)]


@settings(deadline=None, max_examples=60)
@given(kinds, choices, choices, choices)
def test_a_copy_and_its_original_never_influence_each_other(kind, before, of_copy, of_original) -> None:
    original = GAMES[kind].episode()
    play(original, before)
    alone = GAMES[kind].episode()
    play(alone, before)
    copy = original.copy()
    assert copy.state == original.state
    assert hash(copy.state) == hash(original.state)
    copied = play(copy, of_copy)
    assert play(original, of_original) == play(alone, of_original)
    again = GAMES[kind].episode()
    play(again, before)
    assert play(again, of_copy) == copied


@settings(deadline=None, max_examples=60)
@given(kinds, choices)
def test_the_admissible_list_is_sorted_and_every_command_in_it_is_understood(kind, played) -> None:
    for result in play(GAMES[kind].episode(), played):
        assert list(result.admissible_actions) == sorted(set(result.admissible_actions))
        assert result.done == result.won
        assert result.score == float(result.won)


@settings(deadline=None, max_examples=60)
@given(kinds, choices)
def test_what_is_admissible_does_not_depend_on_how_a_state_was_reached(kind, played) -> None:
    """The lists that an episode keeps for the places it has been to equal those of an episode that never was there."""
    episode = GAMES[kind].episode()
    result = play(episode, played)[-1]
    fresh = episode.copy()
    home = fresh.step("go to desk 1") if "go to desk 1" in result.admissible_actions else fresh.step("look")
    assert episode.step("go to desk 1" if "go to desk 1" in result.admissible_actions else "look") == home


garbage = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="\x00\x01\x07\x1b\n\r\t\u2028\u202e ", max_size=30),
    st.sampled_from(
        ["", " ", "x" * 10_000, "go to " * 2_000, "去 书桌 1", "идти к desk 1", "GO TO DESK 1", "go  to desk 1"]
    ),
    st.sampled_from(["take", "take mug 1", "move  to ", "put mug 1 in/on desk 1", "examine mug 9", "go to", "help me"]),
)


@settings(deadline=None, max_examples=200)
@given(kinds, choices, garbage)
def test_garbage_says_nothing_happens_and_changes_nothing(kind, played, typed) -> None:
    episode = GAMES[kind].episode()
    before = play(episode, played)[-1]
    if typed.strip() in before.admissible_actions:
        return
    state = episode.state
    after = episode.step(typed)
    assert after == StepResult("Nothing happens.", before.admissible_actions, before.won, before.done, before.score)
    assert episode.state is state


@pytest.mark.parametrize("kind", TASKS)
def test_surrounding_white_space_is_ignored(kind: str) -> None:
    assert GAMES[kind].episode().step(" \tlook\n") == GAMES[kind].episode().step("look")


def test_any_interleaving_of_64_episodes_gives_each_its_own_transcript() -> None:
    games = [GAMES[kind] for kind in sorted(TASKS)]
    plays = [(games[number % 6], random_commands(games[number % 6], number, 40)) for number in range(64)]
    alone = [transcript(game.episode(), commands) for game, commands in plays]
    for seed in range(3):
        rng = random.Random(seed)
        episodes = [game.episode() for game, _ in plays]
        together = [[episode.reset()] for episode in episodes]
        turns = [number for number, (_, commands) in enumerate(plays) for _ in commands]
        rng.shuffle(turns)
        for number in turns:
            together[number].append(episodes[number].step(plays[number][1][len(together[number]) - 1]))
        assert together == alone


def test_threads_that_share_a_game_do_not_disturb_each_other() -> None:
    game = GAMES["two"]
    plays = [random_commands(game, seed, 120) for seed in range(64)]
    alone = [transcript(game.episode(), commands) for commands in plays]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda commands: transcript(game.episode(), commands), plays)) == alone


def test_a_win_is_not_sticky_and_play_goes_on_after_it() -> None:
    episode = GAMES["put"].episode()
    for command in ("go to countertop 1", "open drawer 1", "take mug 1 from drawer 1", "go to desk 1"):
        assert not episode.step(command).won
    assert episode.step("move mug 1 to desk 1").done
    assert not episode.step("take mug 1 from desk 1").won
    assert episode.step("move mug 1 to desk 1").won
    assert not episode.reset().won
