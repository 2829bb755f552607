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
