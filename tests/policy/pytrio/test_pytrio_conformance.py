"""The PyTRIO backend does what every backend must do, through the real SDK and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import conformance
import pytest
import served

from agentic_rl.policy import Policy, Sampler, open_policy, open_sampler


@pytest.fixture(scope="module")
def tiny_server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[served.Server]:
    from agentic_rl.serving.local import LocalEngine

    state = tmp_path_factory.mktemp("tiny-state")
    with served.serving(state, engine=LocalEngine.load(str(tiny_model), scratch=state, device="cpu")) as running:
        yield running


@pytest.fixture
def subject(tiny_server: served.Server, tmp_path: Path) -> conformance.Subject:
    served.point_sdk_at(tiny_server, tmp_path / "home")

    async def policy(resume_from: str | None) -> Policy:
        return open_policy("pytrio", served.MODEL, run_dir=tmp_path / "run", lora_rank=8, resume_from=resume_from)

    async def sampler(path: str | None) -> Sampler:
        return open_sampler("pytrio", served.MODEL, path)

    return conformance.Subject(policy, sampler)


@pytest.fixture
def local(tiny_model: Path, tmp_path: Path) -> conformance.Subject:
    run_dir = tmp_path / "runs" / "local"

    async def policy(resume_from: str | None) -> Policy:
        return open_policy("local", str(tiny_model), run_dir=run_dir, lora_rank=8, resume_from=resume_from)

    async def sampler(path: str | None) -> Sampler:
        return open_sampler("local", str(tiny_model), path, run_root=run_dir.parent)

    return conformance.Subject(policy, sampler)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_pytrio_backend(check, subject: conformance.Subject) -> None:
    asyncio.run(check(subject))


@pytest.mark.parametrize("reduction", conformance.REDUCTIONS)
def test_pytrio_updates_like_local(reduction, subject: conformance.Subject, local: conformance.Subject) -> None:
    asyncio.run(conformance.same_update_as(subject, local, reduction))


def test_pytrio_samples_like_local(subject: conformance.Subject, local: conformance.Subject) -> None:
    asyncio.run(conformance.same_samples_as(subject, local))
