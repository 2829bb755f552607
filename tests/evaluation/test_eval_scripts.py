"""`eval.py` of both recipes: from the command line to the finished file, and one clear line for what is wrong."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from recipe_script import load, run
from walkthrough import Walkthrough

from agentic_rl.dialogue import ChatFormat
from agentic_rl.evaluation import LAPTOP
from agentic_rl.games.interface import GameEntry
from agentic_rl.games.source import load_entries
from agentic_rl.results import choose_games, read_results

SCRIPTS = {"08-alfworld": "--max-episode-steps", "09-AgentOPSD": "--max-turns"}
recipes = pytest.mark.parametrize("recipe", SCRIPTS)
PUBLISHED_FLAGS = (
    "--base-model --model-path --split --limit-per-split --games-per-batch --temperature --top-p --seed --output "
    "--overwrite-output --swanlab-mode --swanlab-project --max-trajectory-tokens --data-root --backend --preset "
    "--games --engine --no-include-admissible-actions --dry-run"
)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "eval_results" / "smoke.jsonl"


@pytest.fixture(scope="module")
def households() -> list[GameEntry]:
    """The games that `--limit-per-split 3` chooses."""
    every = load_entries("household:1", Path("unused"), ["valid_seen", "valid_unseen"])
    return list(choose_games(every, limit_per_split=3, seed=42))


@pytest.fixture
def player(chat: ChatFormat, households: list[GameEntry], monkeypatch: pytest.MonkeyPatch) -> Iterator[Walkthrough]:
    """Plays in place of the model; must be closed by whoever opened it."""
    sampler = Walkthrough(chat, households)
    opened: list[bool] = []

    def open_sampler(backend: str, base_model: str, model_path: str | None = None, **options: object) -> Walkthrough:
        opened.append(True)
        return sampler

    monkeypatch.setattr("agentic_rl.policy.open_sampler", open_sampler)
    yield sampler
    assert sampler.closed or not opened


def evaluate(recipe: str, output: Path, *flags: str) -> int:
    settings = ["--preset", "laptop", "--games", "household:1", "--limit-per-split", "3", "--games-per-batch", "2"]
    return run(recipe, [*settings, "--output", str(output), *flags])


@recipes
@pytest.mark.usefixtures("player")
def test_an_evaluation_is_written_summed_up_and_said(
    recipe: str, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(recipe, output) == 0
    results = read_results(output)
    assert len(results.records) == 6
    assert results.summary.metrics["eval/valid_seen/success_rate"] == 1
    assert results.summary.metrics["eval/valid_unseen/games"] == 3
    assert results.summary.metrics["eval/valid_unseen/steps_over_expert"] == 1
    assert (results.summary.base_model, results.summary.model_path) == ("builtin", None)
    assert results.summary.skill_free
    assert results.summary.panel == results.panel
    said = capsys.readouterr().out.splitlines()
    assert said[1].split()[:4] == ["valid_seen", "3", "100.00%", "[43.9%,"]
    assert said[-1] == f"Results: {output}"


def test_what_a_service_counted_is_kept_for_the_games_it_was_paid_for(
    output: Path, player: Walkthrough, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = {"prefill_tokens": 900, "sample_tokens": 120, "train_tokens": 0}
    monkeypatch.setattr(player, "usage", lambda: usage, raising=False)
    player.before = ctrl_c_after(player, 4)
    assert evaluate("08-alfworld", output) == 130
    kept = len(read_partial(output))
    player.before = None
    assert evaluate("08-alfworld", output) == 0
    assert read_results(output).summary.usage == {"games": 6 - kept, "prefill_tokens": 900, "sample_tokens": 120}
    assert f"Used: {6 - kept} games, 900 prefill tokens, 120 sample tokens" in capsys.readouterr().out


@pytest.mark.parametrize(("recipe", "reward"), [("08-alfworld", 0.8), ("09-AgentOPSD", 1.0)])
def test_the_reward_is_the_recipes(recipe: str, reward: float, output: Path, player: Walkthrough) -> None:
    player.stumbles = [game.game_id for game in player.games]
    assert evaluate(recipe, output) == 0
    assert {record.reward for record in read_results(output).records} == {reward}


@pytest.mark.parametrize(("recipe", "reason"), [("08-alfworld", "max_steps"), ("09-AgentOPSD", "max_turns")])
def test_the_turn_limit_has_the_recipes_name(recipe: str, reason: str, output: Path, player: Walkthrough) -> None:
    player.lost = [game.game_id for game in player.games]
    assert evaluate(recipe, output, SCRIPTS[recipe], "2") == 0
    records = read_results(output).records
    assert {(record.stop_reason, len(record.steps)) for record in records} == {(reason, 2)}


@pytest.mark.usefixtures("player")
def test_the_same_command_gives_the_same_file_however_many_games_are_live(output: Path) -> None:
    assert evaluate("08-alfworld", output) == 0
    before = output.read_bytes()
    assert evaluate("08-alfworld", output, "--overwrite-output", "--games-per-batch", "6") == 0
    assert output.read_bytes() == before


def test_an_existing_file_is_refused_before_anything_is_sampled(
    output: Path, player: Walkthrough, capsys: pytest.CaptureFixture[str]
) -> None:
    output.parent.mkdir()
    output.write_text("precious\n")
    assert evaluate("09-AgentOPSD", output) == 2
    assert "Add --overwrite-output" in one_line(capsys)
    assert output.read_text() == "precious\n"
    assert player.played == []


def test_ctrl_c_keeps_what_was_played_and_the_same_command_goes_on(
    output: Path, player: Walkthrough, capsys: pytest.CaptureFixture[str]
) -> None:
    player.before = ctrl_c_after(player, 4)
    assert evaluate("08-alfworld", output) == 130
    kept = read_partial(output)
    assert 0 < len(kept) < 6
    said = capsys.readouterr().err
    assert f"{len(kept)} of 6 games are in {output}.partial; the same command goes on with them" in said
    assert not output.exists()

    player.before = None
    player.played.clear()
    assert evaluate("08-alfworld", output) == 0
    assert set(player.played).isdisjoint(kept)
    assert len(player.played) == 6 - len(kept)
    assert not output.with_name("smoke.jsonl.partial").exists()

    whole = output.with_name("whole.jsonl")
    assert evaluate("08-alfworld", whole) == 0
    assert whole.read_bytes() == output.read_bytes()


def test_games_of_another_temperature_are_not_mixed_in(
    output: Path, player: Walkthrough, capsys: pytest.CaptureFixture[str]
) -> None:
    player.before = ctrl_c_after(player, 4)
    assert evaluate("08-alfworld", output) == 130
    capsys.readouterr()
    player.before = None
    assert evaluate("08-alfworld", output, "--temperature", "0.5") == 2
    assert "unfinished games of other settings (temperature 1.0 there, 0.5 here)" in one_line(capsys)


def test_a_game_that_cannot_be_played_leaves_the_others_to_go_on_with(
    output: Path, player: Walkthrough, capsys: pytest.CaptureFixture[str]
) -> None:
    broken: list[str] = []

    async def fail(game_id: str) -> None:
        broken[:] = broken or [game_id]
        if game_id in broken:
            raise ConnectionError("the line went dead")

    player.before = fail
    assert evaluate("08-alfworld", output, "--sample-retries", "0") == 2
    assert "1 of 6 games could not be played to their end" in capsys.readouterr().err
    assert len(read_partial(output)) == 5
    player.before = None
    assert evaluate("08-alfworld", output) == 0


@recipes
@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--temperature", "-1"], "--temperature is -1"),
        (["--top-p", "0"], "--top-p is 0"),
        (["--limit-per-split", "-1"], "--limit-per-split is -1"),
        (["--games-per-batch", "0"], "--games-per-batch is 0"),
        (["--split", "test"], "invalid choice: 'test'"),
        (["--games", "chess"], "--games chess is unknown"),
        (["--games", "household:9"], "household"),
        (["--games", "alfworld", "--data-root", "absent"], "there is no dataset at absent.*alfworld-download"),
        (["--model-path", "trio://r/training_state/x"], "is a training state.*`Saved sampler weights`"),
        (["--out", "x"], "unrecognized arguments: --out"),
    ],
)
@pytest.mark.usefixtures("player")
def test_wrong_input_is_one_line_and_exit_code_2(
    recipe: str, flags: list[str], line: str, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(recipe, output, *flags) == 2
    assert re.search(line, one_line(capsys))
    assert not output.exists()


@pytest.mark.usefixtures("player")
def test_a_token_limit_too_small_for_the_first_prompt_is_one_line(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = ["--max-trajectory-tokens", "64", "--max-turns", "3", "--max-action-tokens", "8"]
    assert evaluate("09-AgentOPSD", output, "--games", "household:5", *limits) == 2
    assert re.search("the first prompt of .* Raise --max-trajectory-tokens", one_line(capsys))
    assert list(output.parent.iterdir()) == []


@recipes
def test_a_dry_run_says_what_it_would_do_and_does_nothing(
    recipe: str, output: Path, player: Walkthrough, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(recipe, output, "--dry-run") == 0
    config, _, rest = capsys.readouterr().out.partition("\n}\n")
    assert json.loads(config + "}")["games_per_batch"] == 2
    assert "games: 3 valid_seen, 3 valid_unseen (panel " in rest
    assert "at most 72 turns and 2880 sampled tokens, 2 games at once" in rest
    assert not output.parent.exists()
    assert player.played == []


@recipes
def test_the_laptop_evaluates_as_its_training_does(recipe: str) -> None:
    ours, theirs = (load(recipe, script).PRESETS["laptop"].values for script in ("eval", "train"))
    same = {"backend", "base_model", "games", "max_trajectory_tokens", "swanlab_mode"} | (ours.keys() - LAPTOP.values)
    assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
    assert ours["temperature"] == theirs["eval_temperature"]


@recipes
@pytest.mark.parametrize("script", ["eval", "train"])
def test_on_real_games_the_laptop_leaves_the_recipe_its_games_and_its_limits(recipe: str, script: str) -> None:
    preset = load(recipe, script).PRESETS["laptop"]
    moot = preset.beside({}).keys() - preset.beside({"data_root": "anywhere"}).keys()
    turns = {"08-alfworld": "max_episode_steps", "09-AgentOPSD": "max_turns"}[recipe]
    assert moot >= {"games", "max_trajectory_tokens", turns}


@recipes
def test_help_shows_every_published_flag(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        load(recipe).main(["--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    own = {"08-alfworld": "--max-assistant-tokens", "09-AgentOPSD": "--max-action-tokens"}
    for flag in [*PUBLISHED_FLAGS.split(" "), SCRIPTS[recipe], own[recipe]]:
        assert f" {flag} " in shown.replace(",", " ").replace("\n", " ").replace("]", " "), flag


@pytest.mark.parametrize(("recipe", "tokens"), [("08-alfworld", (12_000, 2048)), ("09-AgentOPSD", (14_336, 512))])
def test_the_defaults_are_the_published_ones(
    recipe: str, tokens: tuple[int, int], sample_root: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--data-root", str(sample_root), "--output", str(output), "--dry-run"]
    assert run(recipe, flags) == 0
    config = json.loads(capsys.readouterr().out.partition("\n}\n")[0] + "}")
    turns, turn_tokens = (name for name in config if name in {"max_episode_steps", "max_turns"}), tokens[1]
    assert config[next(turns)] == 50
    assert turn_tokens in (config.get("max_assistant_tokens"), config.get("max_action_tokens"))
    assert config["max_trajectory_tokens"] == tokens[0]
    expected = {"split": "all", "games_per_batch": 8, "temperature": 0.01, "top_p": 1.0, "seed": 42}
    expected |= {"limit_per_split": 0, "base_model": "Qwen/Qwen3.5-4B", "backend": "pytrio"}
    assert expected.items() <= config.items()


def ctrl_c_after(player: Walkthrough, games: int) -> Callable[[str], Awaitable[None]]:
    """Press once that many games have begun; two may begin in one round of the event loop."""
    pressed: list[bool] = []

    async def press(game_id: str) -> None:
        if len(player.played) >= games and not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)

    return press


def read_partial(output: Path) -> list[str]:
    """The ids of the games in the partial file."""
    lines = output.with_name(f"{output.name}.partial").read_text("utf-8").splitlines()
    return [json.loads(line)["game_id"] for line in lines[1:]]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1, captured.err
    assert captured.err.startswith("error: ")
    return captured.err
