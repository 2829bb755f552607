"""Faults on demand: what is injected is what a network does, and the SDK gets through it."""

from __future__ import annotations

from pathlib import Path

import pytest
import served

from agentic_rl.errors import ConfigError
from agentic_rl.serving.faults import KINDS, Faults, FaultSpec


def test_a_fault_is_a_kind_a_rate_and_a_seed() -> None:
    assert FaultSpec.parse("error:0.05") == FaultSpec("error", 0.05, 0)
    assert FaultSpec.parse("drop:1:7") == FaultSpec("drop", 1.0, 7)


@pytest.mark.parametrize("text", ["", "error", "error:", "error:2", "error:-1", "meteor:0.5", "error:0.1:x"])
def test_other_faults_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match="--fault"):
        FaultSpec.parse(text)


def test_faults_strike_at_their_rate_and_alike_from_one_seed() -> None:
    streams = [Faults([FaultSpec("drop", 0.2, seed)]) for seed in (1, 1, 2)]
    strikes = [[faults.strikes("drop") for _ in range(2000)] for faults in streams]
    assert strikes[0] == strikes[1] != strikes[2]
    assert 320 < sum(strikes[0]) < 480
    assert streams[0].counts == {"drop": sum(strikes[0])}
    assert not any(Faults([FaultSpec("drop", 1.0)]).strikes("slow") for _ in range(10))


def test_a_tokens_first_use_is_never_refused() -> None:
    faults = Faults([FaultSpec("expired-token", 1.0)])
    assert [faults.expires(token) for token in ("a", "a", "b", "b")] == [False, True, False, True]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"failed-event", "slow"}))
def test_the_sdk_gets_through_faults_of_the_network(kind: str, tmp_path: Path) -> None:
    """At a rate of 0.3, none of which is lost and none done twice."""
    with served.serving(tmp_path / "state", faults=(FaultSpec(kind, 0.3, 3),)) as server:
        trio = served.point_sdk_at(server, tmp_path / "home")
        trio.configure(retry_max_attempts=10, retry_initial_delay=0.01)
        try:
            service = trio.ServiceClient(api_key=served.API_KEY)
            client = service.create_lora_training_client(served.MODEL, rank=8)
            tokens = [40, 41, 42, 43]
            datum = trio.Datum(
                model_input=trio.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs={"target_tokens": tokens[1:]}
            )
            steps = []
            for _ in range(6):
                client.forward_backward([datum])
                steps.append(client.optim_step(trio.AdamParams(learning_rate=1e-3)).result(60).metrics["step"])
            assert steps == [1, 2, 3, 4, 5, 6]
            assert server.context.faults.counts[kind] > 0
            del client, service
        finally:
            trio.configure(retry_max_attempts=3, retry_initial_delay=1.0)


def test_a_failed_event_says_so_and_does_nothing(tmp_path: Path) -> None:
    with served.serving(tmp_path / "state", faults=(FaultSpec("failed-event", 1.0),)) as server:
        trio = served.point_sdk_at(server, tmp_path / "home")
        service = trio.ServiceClient(api_key=served.API_KEY)
        client = service.create_lora_training_client(served.MODEL, rank=8)
        with pytest.raises(trio.PyTrioError) as failed:
            client.save_state("x").result(60)
        assert failed.value.code == "internal_error"
        assert failed.value.retryable
        assert not server.context.training._live
        del client, service
