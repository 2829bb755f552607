"""The command line: frozen config objects whose fields are the flags, presets, and one way to report errors.

A config is a frozen dataclass; `option` declares a field together with its help text and its bounds, and
`parse_config` turns the class into flags. What the user types wins over a preset, a preset over a default.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import math
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

from agentic_rl.errors import EXIT_CODE, AgenticRLError, ConfigError

INTERRUPTED = 130


def option(
    default: Any,
    *,
    help: str,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    metavar: str | None = None,
) -> Any:
    """Declare one flag: a dataclass field with its help text and bounds.

    Parameters
    ----------
    minimum, maximum
        Inclusive bounds.
    above
        Exclusive lower bound.
    """
    return dataclasses.field(
        default=default,
        metadata={"help": help, "minimum": minimum, "above": above, "maximum": maximum, "metavar": metavar},
    )


@dataclass(frozen=True, kw_only=True)  # no slots: mixins are inherited together
class ModelOptions:
    """model"""

    backend: Literal["pytrio", "local"] = option(
        "pytrio",
        help="where the model runs: the PyTRIO service (or a server that speaks its protocol), or this machine",
    )
    base_model: str = option(
        "Qwen/Qwen3.5-4B", help="the model: a name the backend knows; locally also a folder, a hub id, or `builtin`"
    )
    sample_timeout: float = option(
        900.0, above=0, metavar="SECONDS", help="report a sample that takes longer than this, and give it up"
    )


@dataclass(frozen=True, kw_only=True)  # no slots: mixins are inherited together
class GameOptions:
    """games"""

    games: str = option(
        "alfworld",
        metavar="SOURCE",
        help="alfworld (the files under --data-root) or household[:1-5], generated games that need no files",
    )
    data_root: Path = option(
        Path("datasets/alfworld"), metavar="DIR", help="the folder above json_2.1.1, json_2.1.1 itself, or one split"
    )
    engine: Literal["simulator", "textworld"] = option(
        "simulator", help="the exact simulator, or TextWorld itself (the reference, thousands of times slower)"
    )
    include_admissible_actions: bool = option(True, help="show the agent the list of available actions")
    seed: int = option(42, minimum=0, help="every random draw of the run comes from it")


@dataclass(frozen=True, kw_only=True)  # no slots: mixins are inherited together
class TrackingOptions:
    """tracking"""

    swanlab_mode: Literal["online", "local", "offline", "disabled"] = option(
        "online", help="how SwanLab mirrors the metrics; only `online` needs `swanlab login`"
    )
    swanlab_project: str = option("agentic-rl-lab", metavar="NAME", help="SwanLab project")
    run_name: str = option("run", metavar="NAME", help="names the run directory, the checkpoints and the SwanLab run")
    run_dir: Path = option(Path("runs"), metavar="DIR", help="the folder that holds the run directories")


@dataclass(frozen=True, slots=True)
class Preset:
    """A tuned set of defaults.

    `unless` maps a field of the preset to a flag that makes it moot: who names a dataset with `--data-root` does not
    want the preset's generated games.
    """

    values: Mapping[str, object]
    unless: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def beside(self, given: Mapping[str, object]) -> dict[str, object]:
        """The preset's values next to what the user gave."""
        return {name: value for name, value in self.values.items() if self.unless.get(name) not in given}


def parse_config[C](
    config_class: type[C],
    argv: Sequence[str] | None,
    *,
    prog: str,
    description: str,
    presets: Mapping[str, Preset] | None = None,
) -> C:
    """Build `config_class` from the command line.

    Raises
    ------
    ConfigError
        For an unknown flag, a value of the wrong type or outside its bounds, or a combination that the
        config's own `validate` refuses.
    """
    parser = _Parser(prog=prog, description=description, formatter_class=_HelpFormatter, allow_abbrev=False)
    if presets:
        parser.add_argument(
            "--preset", choices=sorted(presets), help="a tuned set of defaults; every flag you give wins over it"
        )
    add_flags(parser, config_class)
    arguments = parser.parse_args(argv)
    given = given_flags(config_class, arguments)
    chosen = getattr(arguments, "preset", None)
    preset = presets[chosen].beside(given) if presets and chosen else {}
    return build_config(config_class, {**preset, **given})


def add_flags(parser: argparse.ArgumentParser, config_class: type) -> None:
    """Give a parser one flag a field of `config_class`, in groups named by the classes that declare them."""
    hints = typing.get_type_hints(config_class)
    groups: dict[str, argparse._ArgumentGroup] = {}
    for field, owner in _fields_with_owner(config_class):
        title = (owner.__doc__ or "options").strip().splitlines()[0].rstrip(".")
        group = groups.get(title) or groups.setdefault(title, parser.add_argument_group(title))
        _add_flag(group, field, hints[field.name])


def given_flags(config_class: type, arguments: argparse.Namespace) -> dict[str, object]:
    """The fields of `config_class` that the user typed a flag for."""
    typed = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(config_class)}
    return {name: value for name, value in typed.items() if value is not _UNSET}


def build_config[C](config_class: type[C], values: Mapping[str, object]) -> C:
    """Build `config_class` from field values, with the same checks as the command line."""
    config = config_class(**values)
    for field in dataclasses.fields(config_class):  # type: ignore[arg-type]
        _check_bounds(field, getattr(config, field.name))
    validate = getattr(config, "validate", None)
    if validate is not None:
        validate()
    return config


def as_json(config: object) -> dict[str, object]:
    """The resolved config as JSON values, in the order of its fields."""
    return {
        field.name: str(value) if isinstance(value := getattr(config, field.name), Path) else value
        for field in dataclasses.fields(config)  # type: ignore[arg-type]
    }


def flag_of(name: str) -> str:
    """`learning_rate` → `--learning-rate`."""
    return "--" + name.replace("_", "-")


def run_main(main: Callable[[Sequence[str] | None], int | None], argv: Sequence[str] | None = None) -> int:
    """Run a command: an error that the user can mend becomes one line and exit code 2, Ctrl-C becomes 130."""
    try:
        return main(argv) or 0
    except AgenticRLError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_CODE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `… --help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


_UNSET = object()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint=f"`{self.prog} --help` lists every flag")


class _HelpFormatter(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=min(120, max(80, _terminal_columns())))


def _terminal_columns() -> int:
    try:
        return os.get_terminal_size().columns
    except OSError:
        return 100


def _fields_with_owner(config_class: type) -> list[tuple[dataclasses.Field[Any], type]]:
    """Every field with the class that first declared it, the most specific class first: it names the group."""
    owner: dict[str, type] = {}
    for cls in reversed(config_class.__mro__):
        for name in inspect.get_annotations(cls):
            owner.setdefault(name, cls)
    order = config_class.__mro__.index
    fields = [(field, owner[field.name]) for field in dataclasses.fields(config_class)]
    return sorted(fields, key=lambda pair: order(pair[1]))


def _add_flag(group: argparse._ArgumentGroup, field: dataclasses.Field[Any], hint: Any) -> None:
    kind, optional = _unwrap_optional(hint)
    shown = "" if field.default is None or optional else f" (default: {_shown(field.default)})"
    kwargs: dict[str, Any] = {"help": field.metadata["help"].replace("%", "%%") + shown, "default": _UNSET}
    if kind is bool:
        kwargs["action"] = argparse.BooleanOptionalAction
    elif get_origin(kind) is Literal:
        kwargs["choices"] = list(get_args(kind))
    else:
        kwargs["type"] = kind
        kwargs["metavar"] = field.metadata["metavar"] or {int: "N", float: "X"}.get(kind, kind.__name__.upper())
    group.add_argument(flag_of(field.name), dest=field.name, **kwargs)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _unwrap_optional(hint: Any) -> tuple[Any, bool]:
    if isinstance(hint, types.UnionType) or get_origin(hint) is typing.Union:
        members = [member for member in get_args(hint) if member is not type(None)]
        return members[0], True
    return hint, False


def _check_bounds(field: dataclasses.Field[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    minimum, above, maximum = (field.metadata.get(key) for key in ("minimum", "above", "maximum"))
    bounds = []
    if minimum is not None:
        bounds.append((value >= minimum, f"at least {minimum:g}"))
    if above is not None:
        bounds.append((value > above, f"above {above:g}"))
    if maximum is not None:
        bounds.append((value <= maximum, f"at most {maximum:g}"))
    if not math.isfinite(value) or not all(holds for holds, _ in bounds):
        wanted = " and ".join(text for _, text in bounds) or "a finite number"
        raise ConfigError(f"{flag_of(field.name)} is {value:g}; it must be {wanted}")
