"""A minute of nonsense on the four actor routes: 4xx or a failed event, never a traceback, and the server stays up."""

from __future__ import annotations

import time
from typing import Any

import httpx
import msgpack
import pytest
import served
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_server_protocol import LORA, Run, forward, sample_body, sampling_run

SECONDS = 60

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**62), 2**62), st.floats(), st.text(max_size=12), st.binary(max_size=12)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**62), 2**62), st.floats(), st.text(max_size=12)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def mutated(value: Any, draw: Any, nonsense: Any) -> Any:
    """A well-formed body with something of it replaced, left out or added."""
    if not isinstance(value, dict) or not value or draw(st.integers(0, 4)) == 0:
        return draw(nonsense)
    key = draw(st.sampled_from(sorted(value)))
    match draw(st.integers(0, 3)):
        case 0:
            return {k: v for k, v in value.items() if k != key}
        case 1:
            return value | {draw(st.text(max_size=8)): draw(nonsense)}
        case _:
            return value | {key: mutated(value[key], draw, nonsense)}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nonsense_never_brings_the_server_down(server: served.Server) -> None:
    run = Run(server)
    run.init()
    path, client = sampling_run(server)
    deadline = time.monotonic() + SECONDS
    seen: dict[int, int] = {}

    def check(answer: httpx.Response) -> None:
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
        assert answer.status_code < 500 or answer.status_code == 501, answer.text
        assert b"Traceback" not in answer.content

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def attack(data: Any) -> None:
        draw = data.draw
        match draw(st.integers(0, 5)):
            case 0:
                check(run.http.post("/v1/events", content=draw(st.binary(max_size=200))))
            case 1:
                check(run.http.post("/v1/events", content=pack(draw(ANYTHING))))
            case 2:
                kinds = ["forward", "forward_backward", "optimize_step", "save_state", "save_weights", "x"]
                kind = draw(st.sampled_from(kinds))
                bodies = [forward([40, 41, 42]), {"name": "n", "overwrite": True, "visibility": "TEMPORARY"}, LORA]
                payload = mutated(draw(st.sampled_from(bodies)), draw, ANYTHING)
                envelope = run.envelope(f"trainer.{kind}", payload)
                check(run.http.post("/v1/events", content=pack(mutated(envelope, draw, ANYTHING))))
                check(run.http.post("/v1/events", content=pack(envelope)))
                ended = run.http.get(f"/v1/events/{envelope['event_id']}", headers={"Prefer": "wait=30"})
                check(ended)
            case 3:
                name = draw(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30))
                prefer = draw(st.sampled_from(["wait=0", "wait=x", "wait=-1", ""]))
                check(run.http.get(f"/v1/events/{name.replace('?', '').replace('#', '')}", headers={"Prefer": prefer}))
            case 4:
                check(run.http.post("/v1/client/heartbeat", content=draw(st.binary(max_size=60))))
                check(client.post(path, content=draw(st.binary(max_size=200))))
            case 5:
                body = sample_body(request_id=f"req_{draw(st.integers(0, 10**9))}")
                body["sampling_params"]["max_tokens"] = 3
                check(client.post(path, content=dumps(mutated(body, draw, JSON)), timeout=60))

    while time.monotonic() < deadline:
        attack()
    assert httpx.get(f"{server.url}/healthz", trust_env=False).status_code == 200
    assert run.do("trainer.forward", forward([40, 41, 42]))["status"] == "succeeded"
    assert seen.get(200, 0) > 20, seen
    assert seen.get(400, 0) > 20, seen


def pack(value: Any) -> bytes:
    try:
        packed: bytes = msgpack.packb(value)
    except (OverflowError, ValueError, TypeError):
        return b"\xc1"
    return packed


def dumps(value: Any) -> bytes:
    import json

    return json.dumps(value).encode("utf-8", "surrogatepass")
