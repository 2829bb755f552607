"""AgentOPSD: the outcome gives a trajectory its sign, a teacher with skills gives each turn its size.

Agentic on-policy self-distillation, arXiv 2608.05987. The teacher is the student itself, told the skills for the
task; how much likelier it finds the actions of a turn is evidence that the trajectory is on its way to success.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentic_rl.credit.group_mean import group_mean_advantages, group_rewards

type Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TurnCredit:
    """Credit of one group, with every intermediate value.

    Attributes
    ----------
    sequence_advantage
        Shape (trajectories,): A.
    initial_belief
        b₀, the same for the whole group.
    belief, belief_change, weight, multiplier, turn_advantage
        One array of shape (turns,) a trajectory: b_k, Δ_k = b_k − b_{k−1}, w_k, (1 − λ) + λ w_k, A_k.
    """

    sequence_advantage: Floats
    initial_belief: float
    belief: tuple[Floats, ...]
    belief_change: tuple[Floats, ...]
    weight: tuple[Floats, ...]
    multiplier: tuple[Floats, ...]
    turn_advantage: tuple[Floats, ...]


def agent_opsd(
    rewards: ArrayLike,
    evidence: Sequence[ArrayLike],
    *,
    gamma: float = 0.95,
    reshape_lambda: float = 0.5,
    weight_bound: float = 0.2,
    epsilon: float = 1e-4,
) -> TurnCredit:
    """Turn advantages of one group (arXiv 2608.05987, the method section; formulas in the code's order).

    The sequence advantage is GRPO's (arXiv 2402.03300, section 4.1.2): A = (r − mean r) / (std r + ε). A trajectory's
    turns then shift a belief of success, b_k = sigmoid(logit b₀ + c_k) with c_k = γ c_{k−1} + e_k, and a turn that
    shifts it the way of the outcome weighs more: A_k = A ((1 − λ) + λ w_k), so that |A_k − A| ≤ |A| λ β.

    Parameters
    ----------
    rewards
        Shape (trajectories,).
    evidence
        One array of shape (turns,) a trajectory: Σ over the turn's sampled tokens of (teacher − student) log-prob.
    gamma, reshape_lambda, weight_bound
        γ, λ and β, each in [0, 1].
    epsilon
        ε in (0, 0.5): added to standard deviations, and the margin that keeps b₀ off 0 and 1.

    Raises
    ------
    ValueError
        A hyperparameter out of its range, numbers that are not finite, or lengths that do not match.
    """
    _check_range("gamma", gamma)
    _check_range("reshape_lambda", reshape_lambda)
    _check_range("weight_bound", weight_bound)
    if not 0.0 < epsilon < 0.5:
        raise ValueError(f"epsilon must lie between 0 and 0.5, not {epsilon}")
    outcome = group_rewards(rewards)
    traces = [_evidence_of(index, values) for index, values in enumerate(evidence)]
    if len(traces) != outcome.size:
        raise ValueError(f"{outcome.size} rewards, but evidence for {len(traces)} trajectories")

    sequence_advantage = group_mean_advantages(outcome) / (outcome.std() + epsilon)
    initial_belief = float(np.clip(outcome.mean(), epsilon, 1.0 - epsilon))
    prior = np.log(initial_belief) - np.log1p(-initial_belief)

    belief, change, weight, multiplier, turn_advantage = [], [], [], [], []
    for advantage, trace in zip(sequence_advantage, traces, strict=True):
        log_odds = prior + np.concatenate([[0.0], _discounted_sums(trace, gamma)])
        beliefs = _sigmoid(log_odds)  # beginning with b₀, so that no evidence means no change, to the last bit
        delta = np.diff(beliefs)
        w = _bounded_weights(np.sign(advantage) * delta, weight_bound, epsilon)
        m = (1.0 - reshape_lambda) + reshape_lambda * w
        belief.append(beliefs[1:])
        change.append(delta)
        weight.append(w)
        multiplier.append(m)
        turn_advantage.append(advantage * m)
    return TurnCredit(
        sequence_advantage=sequence_advantage,
        initial_belief=initial_belief,
        belief=tuple(belief),
        belief_change=tuple(change),
        weight=tuple(weight),
        multiplier=tuple(multiplier),
        turn_advantage=tuple(turn_advantage),
    )


def agent_opsd_metrics(credits: Sequence[TurnCredit], evidence: Sequence[Sequence[ArrayLike]]) -> dict[str, float]:
    """Diagnostics over all turns of all groups (method.md, section 7): means and extremes under `opsd/`.

    `evidence` holds, group by group, what `agent_opsd` was given. Empty if there is no turn at all.
    """
    e = _flat([values for group in evidence for values in group])
    if e.size == 0:
        return {}
    delta = _flat([values for credit in credits for values in credit.belief_change])
    w = _flat([values for credit in credits for values in credit.weight])
    m = _flat([values for credit in credits for values in credit.multiplier])
    return {
        "opsd/evidence_mean": float(e.mean()),
        "opsd/evidence_abs_mean": float(np.abs(e).mean()),
        "opsd/delta_b_mean": float(delta.mean()),
        "opsd/delta_b_abs_mean": float(np.abs(delta).mean()),
        "opsd/weight_mean": float(w.mean()),
        "opsd/weight_min": float(w.min()),
        "opsd/weight_max": float(w.max()),
        "opsd/adv_multiplier_min": float(m.min()),
        "opsd/adv_multiplier_max": float(m.max()),
    }


def _discounted_sums(trace: Floats, gamma: float) -> Floats:
    """c_k = γ c_{k−1} + e_k, c_0 = 0."""
    sums = np.empty_like(trace)
    total = 0.0
    for k, e in enumerate(trace):
        total = gamma * total + e
        sums[k] = total
    return sums


def _bounded_weights(q: Floats, bound: float, epsilon: float) -> Floats:
    """w_k = clip(1 + β z_k, 1 − β, 1 + β), z = (q − mean q) / (std q + ε) over one trajectory's turns."""
    if q.size == 0 or q.min() == q.max():  # nothing sets one turn apart from another
        return np.ones_like(q)
    z = (q - q.mean()) / (q.std() + epsilon)
    return np.clip(1.0 + bound * z, 1.0 - bound, 1.0 + bound)


def _sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(−x)) without overflow, exact to rounding on both sides."""
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, decay) / (1.0 + decay)


def _evidence_of(index: int, values: ArrayLike) -> Floats:
    trace = np.asarray(values, dtype=np.float64)
    if trace.ndim != 1:
        raise ValueError(f"evidence of trajectory {index}: one number a turn, not shape {trace.shape}")
    if not np.isfinite(trace).all():
        raise ValueError(f"evidence of trajectory {index}: every number must be finite")
    return trace


def _check_range(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, not {value}")


def _flat(arrays: Sequence[ArrayLike]) -> Floats:
    return np.concatenate([np.asarray(values, dtype=np.float64) for values in arrays]) if arrays else np.zeros(0)
