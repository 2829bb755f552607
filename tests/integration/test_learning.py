"""A few updates of either recipe win games that were held out; with the advantage's sign flipped they lose them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from recipe_script import run

import agentic_rl.training
from agentic_rl.results import Comparison, compare, read_results
from agentic_rl.rollout.trajectory import Group, Trajectory
from agentic_rl.training.recipe import Credit, CreditRule, Recipe

PANEL = 200
LEARNING, FLIPPED = 8, 4  # updates: to forget takes less time than to learn
RECIPES = ("08-alfworld", "09-AgentOPSD")

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class FlippedRule:
    """What was good is called bad, and what was bad good."""

    rule: CreditRule

    @property
    def observe(self) -> Callable[[Trajectory], Awaitable[None]] | None:
        return self.rule.observe

    def assign(self, groups: Sequence[Group]) -> Credit:
        credit = self.rule.assign(groups)
        return Credit({key: -advantages for key, advantages in credit.turn_advantages.items()}, credit.metrics)


class Flipped:
    """A recipe with its credit turned round."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recipe, name)

    def credit(self, *snapshot: Any) -> FlippedRule:
        return FlippedRule(self._recipe.credit(*snapshot))


def trained(recipe: str, run_dir: Path, *, updates: int) -> Comparison:
    """The laptop preset, fewer updates of it: success on the panel after them against before."""
    flags = f"--preset laptop --max-steps {updates} --eval-every {updates} --eval-games {PANEL} --save-every 0"
    assert run(recipe, [*flags.split(), "--run-name", "short", "--run-dir", str(run_dir)], "train") == 0
    files = [run_dir / "short" / "evaluations" / f"update-{update:05d}.jsonl" for update in (0, updates)]
    before, after = (read_results(file).records for file in files)
    assert len(before) == PANEL
    return compare(before, after)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_short_training_wins_games_that_it_never_played(recipe: str, tmp_path: Path) -> None:
    change = trained(recipe, tmp_path, updates=LEARNING)
    assert change.interval.low > 0, change


@pytest.mark.parametrize("recipe", RECIPES)
def test_with_the_sign_of_the_advantage_flipped_it_loses_them(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = agentic_rl.training.train

    def flipped(config: Any, make_recipe: Any, **how: Any) -> int:
        return train(config, lambda policy: Flipped(make_recipe(policy)), **how)

    monkeypatch.setattr(agentic_rl.training, "train", flipped)
    change = trained(recipe, tmp_path, updates=FLIPPED)
    assert change.interval.high < 0, change
