"""Run every command of both recipes against a server of our own, as they are printed for the PyTRIO service.

    python scripts/rehearse_seeds.py --data-root DIR

Starts `agentic-rl serve` with the built-in model under the name that the commands ask for, and runs the commands one
after another in a folder of its own. They are changed in three ways only: `--data-root` is added, the two long
trainings get `--max-steps 2`, and a `trio://` path of an example becomes the one that the training before has printed.
Without `--online` (and a SwanLab login) those two also say `--swanlab-mode offline`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODEL = "Qwen/Qwen3.5-4B"

ALFWORLD = r"""
uv run --extra alfworld python 08-alfworld/train.py \
    --max-steps 1 \
    --games-per-batch 1 \
    --group-size 8 \
    --max-episode-steps 10 \
    --save-every 0 \
    --run-name alfworld-smoke \
    --swanlab-mode disabled

uv run --extra alfworld python 08-alfworld/train.py \
    --base-model Qwen/Qwen3.5-4B \
    --max-steps 80 \
    --games-per-batch 8 \
    --group-size 8 \
    --max-episode-steps 50 \
    --max-trajectory-tokens 12000 \
    --max-assistant-tokens 2048 \
    --temperature 1.0 \
    --top-p 1.0 \
    --learning-rate 1e-6 \
    --save-every 20 \
    --run-name alfworld-agent-rl-qwen35-4b \
    --swanlab-mode online

uv run --extra alfworld python 08-alfworld/eval.py \
    --base-model Qwen/Qwen3.5-4B \
    --split all \
    --games-per-batch 16 \
    --temperature 0.01 \
    --seed 42 \
    --output 08-alfworld/eval_results/base-qwen35-4b-eval.jsonl \
    --swanlab-mode disabled

uv run --extra alfworld python 08-alfworld/eval.py \
    --base-model Qwen/Qwen3.5-4B \
    --model-path 'trio://RUN_ID/sampler_weights/WEIGHTS_NAME' \
    --split all \
    --games-per-batch 16 \
    --temperature 0.01 \
    --seed 42 \
    --output 08-alfworld/eval_results/checkpoint-40steps.jsonl \
    --swanlab-mode disabled

uv run --extra alfworld python 08-alfworld/eval.py \
    --base-model Qwen/Qwen3.5-4B \
    --model-path 'trio://RUN_ID/sampler_weights/WEIGHTS_NAME' \
    --split all \
    --games-per-batch 16 \
    --temperature 0.01 \
    --seed 42 \
    --output 08-alfworld/eval_results/checkpoint-80steps.jsonl \
    --swanlab-mode disabled

uv run python 08-alfworld/analysis.py
"""

AGENTOPSD = r"""
uv run --extra alfworld python 09-AgentOPSD/train.py --help

uv run --extra alfworld python 09-AgentOPSD/eval.py --help

uv run python 09-AgentOPSD/analysis.py --help

uv run --extra alfworld python 09-AgentOPSD/train.py \
    --max-steps 1 \
    --tasks-per-update 1 \
    --group-size 4 \
    --max-turns 20 \
    --teacher-concurrency 4 \
    --save-every 1 \
    --seed 3 \
    --run-name agentopsd-smoke \
    --swanlab-mode disabled

uv run --extra alfworld python 09-AgentOPSD/train.py \
    --base-model Qwen/Qwen3.5-4B \
    --max-steps 80 \
    --tasks-per-update 16 \
    --group-size 8 \
    --max-turns 50 \
    --max-trajectory-tokens 14336 \
    --max-action-tokens 512 \
    --temperature 1.0 \
    --top-p 1.0 \
    --teacher-concurrency 16 \
    --gamma 0.95 \
    --reshape-lambda 0.5 \
    --weight-bound 0.2 \
    --ppo-clip-low 0.8 \
    --ppo-clip-high 1.24 \
    --lora-rank 32 \
    --learning-rate 4e-6 \
    --save-every 40 \
    --seed 42 \
    --run-name agentopsd-alfworld-qwen35-4b \
    --swanlab-project agentic-rl-lab-agentopsd \
    --swanlab-mode online

uv run --extra alfworld python 09-AgentOPSD/eval.py \
    --base-model Qwen/Qwen3.5-4B \
    --split all \
    --limit-per-split 2 \
    --games-per-batch 2 \
    --temperature 0.01 \
    --seed 42 \
    --output 09-AgentOPSD/eval_results/base-smoke.jsonl \
    --swanlab-mode disabled

uv run --extra alfworld python 09-AgentOPSD/eval.py \
    --base-model Qwen/Qwen3.5-4B \
    --split all \
    --games-per-batch 16 \
    --temperature 0.01 \
    --seed 42 \
    --output 09-AgentOPSD/eval_results/base-qwen35-4b-eval.jsonl \
    --swanlab-mode disabled

uv run --extra alfworld python 09-AgentOPSD/eval.py \
    --base-model Qwen/Qwen3.5-4B \
    --model-path 'trio://RUN_ID/sampler_weights/WEIGHTS_NAME' \
    --split all \
    --games-per-batch 16 \
    --temperature 0.01 \
    --seed 42 \
    --output 09-AgentOPSD/eval_results/checkpoint-eval.jsonl \
    --swanlab-mode disabled

uv run --extra alfworld python 09-AgentOPSD/eval.py \
    --base-model Qwen/Qwen3.5-4B \
    --model-path 'trio://run_sschmbprfwg0/sampler_weights/agentopsd-alfworld-qwen35-4b-step-40-weights' \
    --split all \
    --games-per-batch 16 \
    --temperature 0.01 \
    --seed 42 \
    --output 09-AgentOPSD/eval_results/checkpoint-eval-step40.jsonl \
    --swanlab-mode disabled

uv run --extra alfworld python 09-AgentOPSD/eval.py \
    --base-model Qwen/Qwen3.5-4B \
    --model-path 'trio://run_sschmbprfwg0/sampler_weights/agentopsd-alfworld-qwen35-4b-step-80-weights' \
    --split all \
    --games-per-batch 16 \
    --temperature 0.01 \
    --seed 42 \
    --output 09-AgentOPSD/eval_results/checkpoint-eval-step80.jsonl \
    --swanlab-mode disabled

uv run python 09-AgentOPSD/analysis.py

uv run python 09-AgentOPSD/analysis.py \
    --result-dir 09-AgentOPSD/eval_results \
    --output 09-AgentOPSD/images/agentopsd_checkpoint_evaluation.png \
    --dpi 300
"""

_SAVED = re.compile(r"Saved sampler weights: (trio://\S+)")


@dataclass(frozen=True)
class Ran:
    """One command that was run."""

    shown: str
    code: int
    seconds: float


def printed(text: str) -> list[list[str]]:
    """The commands of a text, as words."""
    return [shlex.split(block.replace("\\\n", " ")) for block in text.strip().split("\n\n")]


def changed(words: Sequence[str], data_root: Path, weights: str | None, *, online: bool, turns: int) -> list[str]:
    """A printed command as it is run here: the changes, and this Python in place of `uv run`."""
    script = next(i for i, word in enumerate(words) if word.endswith(".py"))
    command = [sys.executable, *words[script:]]
    if "--help" in command:
        return command
    if not words[script].endswith("analysis.py"):
        command += ["--data-root", str(data_root)]
        if turns:
            command += ["--max-turns" if words[script].startswith("09") else "--max-episode-steps", str(turns)]
    if "--max-steps" in command and command[command.index("--max-steps") + 1] == "80":
        command[command.index("--max-steps") + 1] = "2"
    if not online and "online" in command:
        command[command.index("online")] = "offline"
    if "--model-path" in command:
        if weights is None:
            raise SystemExit("no training has printed a `Saved sampler weights` path yet")
        command[command.index("--model-path") + 1] = weights
    return command


@contextlib.contextmanager
def server(folder: Path, base_model: str, faults: Sequence[str]) -> Iterator[dict[str, str]]:
    """A server on a free port; gives the environment that points the SDK at it."""
    command = [sys.executable, "-m", "agentic_rl.cli", "serve", "--base-model", base_model]
    command += ["--served-model-name", MODEL, "--port", "0", "--state-dir", str(folder / "serve")]
    for fault in faults:
        command += ["--fault", fault]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        shown = ""
        while "PYTRIO_API_KEY=" not in shown:
            line = process.stdout.readline()
            if not line:
                raise SystemExit("the server did not start")
            shown += line
        print(shown, end="", flush=True)
        variables = dict(re.findall(r"export (PYTRIO_\w+)=(\S+)", shown))
        try:
            yield os.environ | variables
        finally:
            process.terminate()
            process.wait(60)


def rehearse(
    folder: Path, data_root: Path, environment: dict[str, str], log: Path, *, online: bool, turns: int
) -> list[Ran]:
    """Run everything; stops at the first command that fails."""
    for recipe in ("08-alfworld", "09-AgentOPSD"):
        (folder / recipe).mkdir()
        for script in ROOT.joinpath(recipe).glob("*.py"):
            shutil.copy(script, folder / recipe)
    ran: list[Ran] = []
    for text in (ALFWORLD, AGENTOPSD):
        weights = None
        for words in printed(text):
            command = changed(words, data_root, weights, online=online, turns=turns)
            shown = shlex.join(["python", *command[1:]])
            print(f"$ {shown}", flush=True)
            started = time.monotonic()
            done = subprocess.run(
                command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            with log.open("a") as file:
                file.write(f"$ {shown}\n{done.stdout}\n")
            ran.append(Ran(shown, done.returncode, time.monotonic() - started))
            print("\n".join(done.stdout.strip().splitlines()[-6:]), flush=True)
            print(f"[exit {done.returncode}, {ran[-1].seconds:.0f} s]\n", flush=True)
            if done.returncode != 0:
                return ran
            if found := _SAVED.findall(done.stdout):
                weights = found[-1]
    return ran


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data-root", type=Path, required=True, metavar="DIR", help="the games")
    parser.add_argument("--work-dir", type=Path, metavar="DIR", help="where to run (default: a temporary folder)")
    parser.add_argument("--online", action="store_true", help="keep --swanlab-mode online; needs a SwanLab login")
    parser.add_argument("--turns", type=int, default=0, metavar="N", help="a short look: only N turns an episode")
    parser.add_argument("--base-model", default="builtin", metavar="MODEL", help="what is served (default: builtin)")
    parser.add_argument("--fault", action="append", default=[], metavar="KIND:RATE", help="given on to the server")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped too
    folder = args.work_dir or Path(tempfile.mkdtemp(prefix="rehearsal-"))
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "rehearsal.log"
    with server(folder, args.base_model, args.fault) as environment:
        ran = rehearse(
            folder.resolve(), args.data_root.resolve(), environment, log.resolve(), online=args.online, turns=args.turns
        )
    wanted = len(printed(ALFWORLD)) + len(printed(AGENTOPSD))
    failed = [one for one in ran if one.code != 0]
    print(f"log: {log}")
    for one in ran:
        print(f"{'ok  ' if one.code == 0 else 'FAIL'} {one.seconds:6.0f} s  {one.shown[:100]}")
    how = f"with {args.turns} turns an episode" if args.turns else "as printed"
    print(f"{len(ran) - len(failed)} of {wanted} commands ran {how}, in {sum(r.seconds for r in ran):.0f} s")
    return 1 if failed or len(ran) < wanted else 0


if __name__ == "__main__":
    sys.exit(main())
