"""Compare the base model and its checkpoints on the same games: a table, and a figure.

Reads evaluation files of `09-AgentOPSD/eval.py` and nothing else; needs no extra, no model and no games.

    uv run python 09-AgentOPSD/analysis.py
    uv run python 09-AgentOPSD/analysis.py --files "Base=base.jsonl,Update 15=update-15.jsonl"
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_rl.config import option, parse_config, run_main

CHECKPOINTS = {
    "Base": "base-qwen35-4b-eval.jsonl",
    "Step 40": "checkpoint-eval-step40.jsonl",
    "Step 80": "checkpoint-eval-step80.jsonl",
}


@dataclass(frozen=True, kw_only=True)
class AnalysisConfig:
    """analysis"""

    result_dir: Path = option(
        Path("09-AgentOPSD/eval_results"),
        metavar="DIR",
        help=f"the folder that holds {', '.join(CHECKPOINTS.values())}",
    )
    files: str | None = option(
        None,
        metavar="LIST",
        help="other files of that folder to compare, as LABEL=FILE,LABEL=FILE; the first is what the others are "
        "compared with",
    )
    output: Path = option(
        Path("09-AgentOPSD/images/agentopsd_checkpoint_evaluation.png"),
        metavar="FILE",
        help="where the figure goes (.png, .pdf or .svg)",
    )
    dpi: int = option(300, minimum=30, maximum=1200, help="dots an inch of a .png")


def main(argv: Sequence[str] | None = None) -> int:
    config = parse_config(AnalysisConfig, argv, prog="09-AgentOPSD/analysis.py", description=__doc__.split("\n\n")[0])

    from agentic_rl.report import parse_files, report_checkpoints

    named = config.files or ",".join(f"{label}={name}" for label, name in CHECKPOINTS.items())
    files = parse_files(named, config.result_dir)
    print(report_checkpoints(files, config.output, dpi=config.dpi))
    print(f"Figure: {config.output}")
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
