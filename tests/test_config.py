"""The command line: flags from fields, presets beneath them, one line for everything that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentic_rl.config import GameOptions, Preset, as_json, option, parse_config, run_main
from agentic_rl.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Example(GameOptions):
    """example"""

    group_size: int = option(8, minimum=2, help="trajectories a game")
    temperature: float = option(1.0, minimum=0, help="sampling temperature")
    learning_rate: float = option(1e-6, above=0, help="the rate")
    skills_dir: Path | None = option(None, help="a folder", metavar="DIR")

    def validate(self) -> None:
        if self.group_size == 13:
            raise ConfigError("13 brings bad luck")


PRESETS = {"laptop": Preset({"games": "household:2", "learning_rate": 1e-3}, unless={"games": "data_root"})}


def parse(*argv: str) -> Example:
    return parse_config(Example, argv, prog="example.py", description="An example.", presets=PRESETS)


def test_every_field_is_a_flag_with_the_fields_default() -> None:
    assert parse() == Example()


def test_flags_set_fields_of_every_type() -> None:
    config = parse(
        "--group-size", "4", "--skills-dir", "x/y", "--no-include-admissible-actions", "--engine", "textworld"
    )
    assert config == Example(group_size=4, skills_dir=Path("x/y"), include_admissible_actions=False, engine="textworld")


def test_what_the_user_gives_wins_over_the_preset_and_the_preset_over_the_default() -> None:
    assert parse("--preset", "laptop").learning_rate == 1e-3
    assert parse("--preset", "laptop", "--learning-rate", "0.5").learning_rate == 0.5
    assert parse("--learning-rate", "1e-6", "--preset", "laptop").learning_rate == 1e-6


def test_naming_a_dataset_makes_the_presets_generated_games_moot() -> None:
    assert parse("--preset", "laptop").games == "household:2"
    assert parse("--preset", "laptop", "--data-root", "d").games == "alfworld"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--group-size", "0"], "--group-size is 0; it must be at least 2"),
        (["--temperature", "-1"], "--temperature is -1; it must be at least 0"),
        (["--temperature", "nan"], "--temperature is nan"),
        (["--learning-rate", "0"], "--learning-rate is 0; it must be above 0"),
        (["--group-size", "many"], "invalid int value: 'many'"),
        (["--group-sise", "4"], "unrecognized arguments"),
        (["--group", "4"], "unrecognized arguments"),
        (["--engine", "unity"], "invalid choice: 'unity'"),
        (["--preset", "cluster"], "invalid choice: 'cluster'"),
        (["--group-size", "13"], "13 brings bad luck"),
    ],
)
def test_a_bad_value_is_one_line_and_exit_code_two(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(args: Sequence[str] | None) -> None:
        parse(*(args or ()))

    assert run_main(main, argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_help_names_every_flag_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse("--help")
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for flag in ("--preset", "--group-size", "--learning-rate", "--no-include-admissible-actions", "--seed"):
        assert flag in text
    assert "(default: 1e-06)" in text


def test_ctrl_c_ends_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    def main(_: Sequence[str] | None) -> None:
        raise KeyboardInterrupt

    assert run_main(main, []) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_the_resolved_config_is_json() -> None:
    record = as_json(parse("--skills-dir", "s"))
    assert record["skills_dir"] == "s"
    assert record["group_size"] == 8
