"""Writes the model of a run's last checkpoint, in the middle of training too."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from model import new_model, save_model
from tokenizer import build, save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    tokenizer = build()
    model = new_model(tokenizer, 0)
    model.load_state_dict(torch.load(options.run / "checkpoint.pt", weights_only=True)["model"])
    save(tokenizer, options.out)
    save_model(model, options.out)


if __name__ == "__main__":
    main()
