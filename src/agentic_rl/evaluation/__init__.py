"""Evaluation: plays a panel of games, one episode each, and writes the results.

Joins rollout and a sampler. `EvalConfig` is light, for `--help`; `evaluate` plays, for training runs too;
`run_evaluation` is the whole of `eval.py`, from the config to the finished file.
"""

from typing import TYPE_CHECKING, Any

from agentic_rl.evaluation.config import LAPTOP, EvalConfig

if TYPE_CHECKING:
    from agentic_rl.evaluation.play import evaluate
    from agentic_rl.evaluation.record import trajectory_record
    from agentic_rl.evaluation.run import run_evaluation

__all__ = ["LAPTOP", "EvalConfig", "evaluate", "run_evaluation", "trajectory_record"]

_ROOMS = {"evaluate": "play", "trajectory_record": "record", "run_evaluation": "run"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
    raise AttributeError(name)
