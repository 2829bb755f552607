"""Makes the builtin model from nothing: a copying exercise, then imitation of the explorer, stage by stage.

    python scripts/builtin/train.py --run runs/builtin --data-root <folder with json_2.1.1>

Run it again with the same `--run` to go on after a stop. `--out` says where the finished model goes. Without
`--data-root` (or a `train` split under it) the real games are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
import vocabulary
from data import OWN, STUMBLE, WORLD, Dialogues, Example, Mixture
from hints import Hints
from model import new_model, save_model
from muon import Muon
from tokenizer import build, save
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

OTHER_WEIGHT = 0.15
"""Weight of tokens that are not the model's own: learning the world's text teaches it to copy."""

OTHER_SHARE = 0.4
"""So many of them are looked at, the rest is left out to save time; the weight makes up for it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the training. `mixture` None is the copying exercise."""

    name: str
    steps: int
    mixture: Mixture | None
    rate: tuple[float, float] = (1.0, 1.0)
    """Factor on the learning rates at the stage's beginning and end, linear in between."""


STAGES = (
    Stage("copy", 30, None, (0.2, 1.0)),
    Stage("small", 400, Mixture({"1": 1.0}, 800, skilled=0.2), (1.0, 0.5)),
    Stage("medium", 250, Mixture({"1": 0.4, "2": 0.6}, 1500, skilled=0.3, clumsy=0.3), (0.5, 0.5)),
    Stage("steady", 400, Mixture({"1": 0.3, "2": 0.5, "3": 0.2}, 1500, skilled=0.35, clumsy=0.3), (0.5, 0.4)),
    Stage(
        "large",
        600,
        Mixture({"1": 0.15, "2": 0.35, "3": 0.25, "real": 0.25}, 2500, skilled=0.3, clumsy=0.5),
        (0.4, 0.25),
    ),
    Stage(
        "whole",
        700,
        Mixture({"1": 0.1, "2": 0.3, "3": 0.25, "real": 0.35}, 4000, skilled=0.3, clumsy=0.6, clumsiness=0.3),
        (0.25, 0.1),
    ),
    Stage(
        "end",
        700,
        Mixture({"1": 0.2, "2": 0.35, "3": 0.25, "real": 0.2}, 2500, skilled=0.35, clumsy=0.8, clumsiness=0.4),
        (0.1, 0.01),
    ),
    Stage(
        "last",
        1000,
        Mixture({"1": 0.25, "2": 0.35, "3": 0.2, "real": 0.2}, 2500, skilled=0.35, clumsy=0.8, clumsiness=0.4),
        (0.3, 0.01),
    ),
)


def copy_batches(tokenizer: PreTrainedTokenizerFast, seed: int, batch_tokens: int) -> Iterator[list[Example]]:
    """Random words and numbers, said again and again: nothing but copying lowers the loss."""
    texts = [f" {word}" for word in (*vocabulary.NAMES, *vocabulary.NUMBERS)]
    texts += ["\n" + verb for verb in vocabulary.VERBS]
    ids = [tokenizer(text, add_special_tokens=False).input_ids[0] for text in texts]
    rng = random.Random(f"{seed}/copy")
    length = 384
    while True:
        rows = []
        for _ in range(batch_tokens // length):
            period = rng.randint(6, 100)
            said = rng.choices(ids, k=period)
            tokens = np.array((said * (length // period + 1))[:length])
            none = np.full(length, -1)
            rows.append(Example(tokens, np.full(length, OWN, np.int8), none.astype(np.int8), none))
        yield rows


class Trainer:
    """Model, optimizers and where the run stands."""

    def __init__(self, options: argparse.Namespace, stages: tuple[Stage, ...] = STAGES) -> None:
        self.options, self.stages = options, stages
        self.tokenizer = build()
        self.model: Qwen3ForCausalLM = new_model(self.tokenizer, options.seed)
        self.hints = Hints(self.model.config)
        named = list(self.model.named_parameters())
        inner = [p for name, p in named if p.ndim == 2 and "embed" not in name]
        outer = [p for name, p in named if p.ndim != 2 or "embed" in name]
        self.optimizers: list[torch.optim.Optimizer] = [
            Muon(inner, lr=options.muon_rate, weight_decay=0.1),
            torch.optim.AdamW(outer, lr=options.adam_rate, betas=(0.9, 0.95), weight_decay=0.0),
            torch.optim.AdamW(self.hints.parameters(), lr=options.adam_rate, weight_decay=0.0),
        ]
        self.base_rates = (options.muon_rate, options.adam_rate, options.adam_rate)
        self.dialogues = Dialogues(self.tokenizer, options.data_root, options.seed)
        self.done = 0
        self.tokens = 0
        self.seconds = 0.0

    def run(self) -> None:
        before = 0
        for stage in self.stages:
            after = before + stage.steps
            if self.done < min(after, self.options.stop_after or after):
                self._stage(stage, before)
            before = after
        self.checkpoint()

    def _stage(self, stage: Stage, before: int) -> None:
        batches = (
            copy_batches(self.tokenizer, self.options.seed, self.options.batch_tokens)
            if stage.mixture is None
            else self.dialogues.batches(stage.mixture, stage.name, self.options.batch_tokens)
        )
        for _ in range(self.done - before):  # made again and thrown away: cheap beside a training step
            next(batches)
        recent: list[tuple[float, ...]] = []
        started = time.monotonic()
        while self.done < before + stage.steps:
            share = (self.done - before) / stage.steps
            factor = stage.rate[0] + (stage.rate[1] - stage.rate[0]) * share
            if self.done == self.options.stop_after:
                return
            recent.append(self._step(next(batches), factor))
            self.done += 1
            if self.done % self.options.log_every == 0 or self.done == before + stage.steps:
                self.seconds += time.monotonic() - started
                started = time.monotonic()
                means = (round(float(np.mean(column)), 4) for column in zip(*recent, strict=True))
                names = ("loss", "other_loss", "sought_loss", "aim_loss")
                self._log(stage=stage.name, **dict(zip(names, means, strict=True)), rate=round(factor, 4))
                recent = []
            if self.done % self.options.save_every == 0:
                self.checkpoint()

    def _step(self, batch: list[Example], factor: float) -> tuple[float, ...]:
        tokens, roles, sought, aims = collate(batch, self.tokenizer.pad_token_id)
        inputs, targets, roles = tokens[:, :-1], tokens[:, 1:], roles[:, 1:]
        chance = torch.rand(targets.shape, generator=torch.Generator().manual_seed(self.done))
        chosen = (roles == OWN) | ((roles == WORLD) & (chance < OTHER_SHARE))
        states = self.model.model(input_ids=inputs, use_cache=False, output_hidden_states=True).hidden_states
        hidden = states[-1]
        hints = self.hints(states, sought[:, :-1], aims[:, :-1])
        losses = F.cross_entropy(self.model.lm_head(hidden[chosen]), targets[chosen], reduction="none")
        own = roles[chosen] == OWN
        weights = torch.where(own, 1.0, OTHER_WEIGHT / OTHER_SHARE)
        (losses @ weights / weights.sum() + hints[0] + hints[1]).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, rate in zip(self.optimizers, self.base_rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad()
        self.tokens += sum(len(example.tokens) for example in batch)
        losses = losses.detach()
        other = float(losses[~own].mean()) if bool((~own).any()) else 0.0
        return float(losses[own].mean()), other, *(float(hint.detach()) for hint in hints)

    def _log(self, **values: Any) -> None:
        record = {"step": self.done, **values, "tokens": self.tokens, "seconds": round(self.seconds)}
        line = json.dumps(record)
        print(line, flush=True)
        with self.log.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    @property
    def log(self) -> Path:
        return Path(self.options.run, "log.jsonl")

    def checkpoint(self) -> None:
        """Everything that is needed to go on, replaced in one move."""
        state = {
            "model": self.model.state_dict(),
            "hints": self.hints.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "progress": (self.done, self.tokens, self.seconds),
        }
        partial = self.options.run / "checkpoint.partial"
        torch.save(state, partial)
        os.replace(partial, self.options.run / "checkpoint.pt")

    def resume(self) -> None:
        """Go on from the run folder's checkpoint, if it has one; the log is cut back to it."""
        path = self.options.run / "checkpoint.pt"
        if not path.exists():
            return
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.hints.load_state_dict(state["hints"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.done, self.tokens, self.seconds = state["progress"]
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        kept = [line for line in lines if json.loads(line)["step"] <= self.done]
        self.log.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def collate(batch: list[Example], pad: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows of tokens, roles, sought and aims, padded on the right, where a causal model does not look."""
    columns = []
    for name, filler in (("tokens", pad), ("roles", STUMBLE), ("sought", -1), ("aims", -1)):
        rows = [torch.from_numpy(getattr(example, name)) for example in batch]
        columns.append(nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=filler))
    tokens, roles, sought, aims = columns
    return tokens, roles, sought, aims


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="folder of checkpoint and log")
    parser.add_argument("--out", type=Path, help="write the finished model here")
    parser.add_argument("--data-root", type=Path, help="folder that holds the real games (json_2.1.1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the steps of every stage")
    parser.add_argument("--stop-after", type=int, help="stop after so many steps, to go on another time")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--muon-rate", type=float, default=0.02)
    parser.add_argument("--adam-rate", type=float, default=2e-3)
    parser.add_argument("--log-every", type=int, default=20)
    parser.add_argument("--save-every", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(argv)


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    options.run.mkdir(parents=True, exist_ok=True)
    stages = tuple(
        Stage(stage.name, max(1, round(stage.steps * options.scale)), stage.mixture, stage.rate) for stage in STAGES
    )
    trainer = Trainer(options, stages)
    trainer.resume()
    trainer.run()
    if options.out:
        save(trainer.tokenizer, options.out)
        save_model(trainer.model, options.out)


if __name__ == "__main__":
    main()
