"""Evaluation records on disk, panels of games, and statistics: the ground floor of every report.

Knows files and numbers only. A file holds one record a game and one summary (`records`, `files`); an evaluation
under way keeps its games in a `.partial` beside it (`partial`); `panel` says which games, `comparison` who is better.
"""

from agentic_rl.results.comparison import Comparison, compare, differing_settings, require_comparable
from agentic_rl.results.files import Results, read_results, write_records
from agentic_rl.results.panel import choose_games, panel_hash
from agentic_rl.results.partial import PartialResults
from agentic_rl.results.records import StepRecord, Summary, TrajectoryRecord
from agentic_rl.results.statistics import (
    Interval,
    mcnemar_exact,
    paired_bootstrap,
    rank_correlation,
    roc_auc,
    roc_auc_interval,
    wilson,
)
from agentic_rl.results.summary import summarize, summary_table

__all__ = [
    "Comparison",
    "Interval",
    "PartialResults",
    "Results",
    "StepRecord",
    "Summary",
    "TrajectoryRecord",
    "choose_games",
    "compare",
    "differing_settings",
    "mcnemar_exact",
    "paired_bootstrap",
    "panel_hash",
    "rank_correlation",
    "read_results",
    "require_comparable",
    "roc_auc",
    "roc_auc_interval",
    "summarize",
    "summary_table",
    "wilson",
    "write_records",
]
