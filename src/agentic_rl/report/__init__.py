"""Figures and tables, from evaluation files alone.

`checkpoints` compares evaluations of the same games and draws them; `learning` draws one run's held-out success over
its updates; `figures` holds what both look like.
"""

from agentic_rl.report.checkpoints import (
    Evaluated,
    checkpoint_figure,
    checkpoint_table,
    parse_files,
    report_checkpoints,
)
from agentic_rl.report.learning import LearningPoint, learning_curve

__all__ = [
    "Evaluated",
    "LearningPoint",
    "checkpoint_figure",
    "checkpoint_table",
    "learning_curve",
    "parse_files",
    "report_checkpoints",
]
