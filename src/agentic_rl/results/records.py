"""What an evaluation file holds: one record a game, then one summary, each a line of JSON.

The names are those of the published files, so that tools written for them go on working. What we add (the expert's
number of steps, the panel's hash, the settings) stands beside them and may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from agentic_rl.errors import ResultsError

type Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One turn: what the agent saw, wrote and did, and what the game answered.

    `prompt_tokens` and `completion_tokens` are counts; `mean_old_logprob` is the mean over the completion's tokens
    of the log-probability at sampling time.
    """

    step: int
    observation: str
    admissible_actions: tuple[str, ...]
    assistant_text: str
    call_id: str
    action: str | None
    valid_format: bool
    admissible: bool
    valid_action: bool
    tool_response: str
    next_observation: str
    environment_score: float
    done: bool
    won: bool
    prompt_tokens: int
    completion_tokens: int
    mean_old_logprob: float | None

    def to_json(self) -> dict[str, Any]:
        """The step as it stands in a file."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_json(cls, value: object, where: str) -> StepRecord:
        """Read one step; `where` begins the message of the error."""
        return cls(**_checked(cls, value, where))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryRecord:
    """One game as it was played.

    `expert_steps` is the length of a shortest solution where it is known; a file leaves it out where it is not.
    """

    evaluation_split: str
    game_id: str
    game_file: str
    split: str
    task_type: str
    group_id: str
    group_index: int
    task: str
    initial_observation: str
    messages: tuple[Message, ...] = field(repr=False)
    won: bool
    truncated: bool
    stop_reason: str
    invalid_action_count: int
    reward: float
    steps: tuple[StepRecord, ...] = field(repr=False)
    expert_steps: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The record as it stands in a file."""
        line = {"type": "trajectory"} | {f.name: getattr(self, f.name) for f in fields(self)}
        line["steps"] = [step.to_json() for step in self.steps]
        return _without_absent(line, "expert_steps")

    @classmethod
    def from_json(cls, value: object, where: str) -> TrajectoryRecord:
        """Read one record; `where` begins the message of the error."""
        values = _checked(cls, value, where)
        steps = [StepRecord.from_json(s, f"{where}, step {i}") for i, s in enumerate(values["steps"], start=1)]
        return cls(**values | {"steps": tuple(steps)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The last line of a file: who played, and how it went.

    Attributes
    ----------
    model_path
        The checkpoint's address; None for the base model itself.
    skill_free
        True: no game was played with skills in the prompt.
    metrics
        `eval/<split>/<name>` as `summarize` computes them.
    panel
        The hash of the games played, where known.
    settings
        Everything that could change the result (temperature, seed, limits, …), where known.
    usage
        What the last process bought of the service: tokens by kind, and in `games` how many games they went
        into (an interrupted evaluation goes on with games that are already paid); None where nothing is bought.
    """

    base_model: str
    model_path: str | None
    skill_free: bool
    metrics: Mapping[str, float] = field(repr=False)
    panel: str | None = None
    settings: Mapping[str, Any] | None = field(default=None, repr=False)
    usage: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """The summary as it stands in a file."""
        line = {"type": "summary"} | {f.name: getattr(self, f.name) for f in fields(self)}
        return _without_absent(line, "panel", "settings", "usage")

    @classmethod
    def from_json(cls, value: object, where: str) -> Summary:
        """Read a summary; `where` begins the message of the error."""
        return cls(**_checked(cls, value, where))


def _without_absent(line: dict[str, Any], *ours: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if not (name in ours and value is None)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


# How a field's annotation is checked. Extra names in a line are left alone: other tools may add their own.
_ACCEPTS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "str | None": lambda value: value is None or isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: _is_number(value) and isinstance(value, int),
    "int | None": lambda value: value is None or (_is_number(value) and isinstance(value, int)),
    "float": _is_number,
    "float | None": lambda value: value is None or _is_number(value),
    "tuple[str, ...]": lambda value: _is_list_of(str, value),
    "tuple[Message, ...]": lambda value: _is_list_of(dict, value),
    "tuple[StepRecord, ...]": lambda value: _is_list_of(dict, value),
    "Mapping[str, float]": lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
    "Mapping[str, int] | None": lambda value: (
        value is None or (isinstance(value, dict) and all(map(_is_number, value.values())))
    ),
    "Mapping[str, Any] | None": lambda value: value is None or isinstance(value, dict),
}
_OPTIONAL = frozenset({"expert_steps", "panel", "settings", "usage"})


def _checked(cls: type[StepRecord | TrajectoryRecord | Summary], value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ResultsError(f"{where}: a JSON object was expected, not {type(value).__name__}")
    checked: dict[str, Any] = {}
    for f in fields(cls):
        if f.name not in value:
            if f.name in _OPTIONAL:
                continue
            raise ResultsError(f"{where}: the field '{f.name}' is missing")
        found = value[f.name]
        if not _ACCEPTS[str(f.type)](found):
            raise ResultsError(f"{where}: the field '{f.name}' should be {f.type}, not {found!r:.60}")
        checked[f.name] = tuple(found) if isinstance(found, list) else found
    return checked
