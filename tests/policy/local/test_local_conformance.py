"""The local backend does what every backend must do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import conformance
import pytest

from agentic_rl.policy import Policy, Sampler, open_policy, open_sampler


@pytest.fixture
def subject(tiny_model: Path, tmp_path: Path) -> conformance.Subject:
    run_dir = tmp_path / "runs" / "conformance"

    async def policy(resume_from: str | None) -> Policy:
        return open_policy("local", str(tiny_model), run_dir=run_dir, lora_rank=8, resume_from=resume_from)

    async def sampler(path: str | None) -> Sampler:
        return open_sampler("local", str(tiny_model), path, run_root=run_dir.parent)

    return conformance.Subject(policy, sampler)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_local_backend(check, subject: conformance.Subject) -> None:
    asyncio.run(check(subject))


def test_a_small_model_takes_one_thread_so_that_sums_do_not_depend_on_the_machine(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    before = torch.get_num_threads()
    try:
        for told, expected in ((None, 1), ("2", 2)):
            monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
            if told is not None:
                monkeypatch.setenv("OMP_NUM_THREADS", told)
            torch.set_num_threads(2)
            sampler = open_sampler("local", str(tiny_model), device="cpu")
            assert torch.get_num_threads() == expected
            asyncio.run(sampler.aclose())
    finally:
        torch.set_num_threads(before)
