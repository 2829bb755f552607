"""The wire itself, spoken by hand: who may ask, what malformed bodies get, and what is never done twice."""

from __future__ import annotations

import concurrent.futures
import time
from typing import Any

import httpx
import msgpack
import pytest
import served

V1 = "/api/openapi/v1"
LORA = {"rank": 8, "seed": 1, "train_mlp": True, "train_attn": True, "train_unembed": False}


class Run:
    """A training run, spoken to by hand."""

    def __init__(self, server: served.Server) -> None:
        with server.control() as control:
            session = control.post(f"{V1}/service-sessions", json={"sdk_version": "0"}).json()["service_session_cuid"]
            body = {"base_model": served.MODEL, "lora_rank": 8, "train_mlp": True, "train_attn": True}
            body |= {"train_unembed": False, "source_checkpoint_uri": "", "restore_optimizer": False}
            created = control.post(f"{V1}/service-sessions/{session}/training-runs", json=body).json()
        self.cuid, self.model = created["training_run_cuid"], created["model_id"]
        self.index = 0
        headers = {"Authorization": f"Bearer {created['actor_jwt']['token']}", "Content-Type": "application/msgpack"}
        self.http = httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60)

    def envelope(self, kind: str, payload: dict[str, Any], **changes: Any) -> dict[str, Any]:
        self.index += 1
        metadata = {"index": self.index, "step": 0, "timestamp": 0, "sdk": "x", "sdk_version": "0", "run_id": self.cuid}
        event_id = f"event_{self.index:012d}"
        return {"version": 1, "event_id": event_id, "type": kind, "metadata": metadata, "payload": payload} | changes

    def post(self, envelope: dict[str, Any]) -> httpx.Response:
        return self.http.post("/v1/events", content=msgpack.packb(envelope))

    def wait(self, event_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/v1/events/{event_id}", headers={"Prefer": "wait=35"})
        return msgpack.unpackb(answer.content)

    def do(self, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        envelope = self.envelope(kind, payload)
        assert self.post(envelope).status_code == 200
        return self.wait(envelope["event_id"])

    def init(self) -> dict[str, Any]:
        return self.do("trainer.init_run", {"base_model": self.model, "lora_config": LORA, "load_optimizer": False})


def forward(tokens: list[int]) -> dict[str, Any]:
    datum = {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": tokens[:-1]}]},
        "target_ids": tokens[1:],
        "weights": [1.0] * (len(tokens) - 1),
    }
    totals = {"total_samples": 1, "total_active_tokens": len(tokens) - 1, "total_advantage_tokens": 0}
    loss = {"type": "cross_entropy", "config": {}}
    return {"data": [datum], "auto_shift": False, "loss": loss, "gradient_accumulation": totals}


ADAM = {"adam_params": {"learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12, "weight_decay": 0.0}}


@pytest.fixture
def run(server: served.Server) -> Run:
    return Run(server)


@pytest.mark.parametrize("key", [None, "", "wrong", "test-key2"])
def test_a_wrong_key_gets_401_everywhere(server: served.Server, key: str | None) -> None:
    headers = {} if key is None else {"X-API-Key": key, "Authorization": f"Bearer {key or 'x'}"}
    app = server.app
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as client:
        for route in app.routes:
            path = route.path.replace("{", "").replace("}", "")
            if path == "/healthz":
                continue
            for method in route.methods:
                assert client.request(method, path).status_code == 401, (method, path)
        assert client.get("/nowhere").status_code == 401
        assert client.head("/").status_code == 401


def test_health_is_open_and_says_what_is_served(server: served.Server) -> None:
    answer = httpx.get(f"{server.url}/healthz", trust_env=False)
    assert answer.json() == {"status": "ok", "models": [served.MODEL]}


def test_an_api_key_is_no_actor_token(server: served.Server, run: Run) -> None:
    wrong = httpx.post(
        f"{server.url}/v1/events", headers={"Authorization": f"Bearer {served.API_KEY}"}, trust_env=False
    )
    assert wrong.status_code == 401
    other = Run(server)
    event = run.envelope("trainer.init_run", {}, metadata={"index": 1, "run_id": other.cuid})
    assert run.post(event).status_code == 403


GOOD = {"version": 1, "event_id": "event_1234", "type": "trainer.forward", "metadata": {"index": 1}, "payload": {}}
BAD_ENVELOPES: list[Any] = [
    b"",
    b"\xc1",
    b"\x93\x01\x02\x03",
    b"\x81\x01\x02",
    msgpack.packb({"version": 1}),
    msgpack.packb(GOOD | {"version": 2}),
    msgpack.packb(GOOD | {"event_id": "../../x"}),
    msgpack.packb(GOOD | {"type": "x"}),
    msgpack.packb(GOOD | {"metadata": {"index": 0}}),
    msgpack.packb(GOOD | {"payload": []}),
]


@pytest.mark.parametrize("body", BAD_ENVELOPES)
def test_a_malformed_envelope_gets_400_without_a_traceback(run: Run, body: bytes) -> None:
    answer = run.http.post("/v1/events", content=body)
    assert answer.status_code == 400
    assert set(answer.json()) == {"code", "message"}
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"loss": {"type": "cross_entropy"}, "data": []},
        {"loss": {"type": "nonsense", "config": {}}, "data": [{}]},
        forward([1]) | {"auto_shift": "yes"},
        {**forward([40, 41]), "data": [{"model_input": {"chunks": [{"type": "encoded_text", "tokens": [-4]}]}}]},
        {**forward([40, 41]), "data": [{**forward([40, 41, 42])["data"][0], "weights": [1.0]}]},
        {**forward([40, 41]), "data": [{**forward([40, 41])["data"][0], "weights": [float("nan")]}]},
        {**forward([40, 41]), "data": [{"model_input": {"chunks": [{"type": "image", "data": b"", "format": "png"}]}}]},
        forward([40, 10**9]),
    ],
)
def test_a_senseless_payload_fails_its_event_and_not_the_run(run: Run, payload: dict[str, Any]) -> None:
    assert run.init()["status"] == "succeeded"
    failed = run.do("trainer.forward_backward", payload)
    assert failed["status"] == "failed"
    assert failed["error"]["code"]
    assert set(failed["usage"]) == {"input_tokens", "output_tokens", "train_tokens"}
    assert run.do("trainer.forward_backward", forward([40, 41, 42]))["status"] == "succeeded"


def test_an_event_is_done_once_however_often_it_is_sent(run: Run) -> None:
    run.init()
    run.do("trainer.forward_backward", forward([40, 41, 42]))
    step = run.envelope("trainer.optimize_step", ADAM)
    statuses = [run.post(step).status_code for _ in range(3)]
    assert statuses == [200, 409, 409]
    assert run.post(step).json()["code"] == "event_exists"
    assert run.wait(step["event_id"])["result"]["metrics"]["step"] == 1
    assert run.do("trainer.optimize_step", ADAM)["result"]["metrics"]["step"] == 2


def test_events_of_a_run_are_done_in_their_order(run: Run) -> None:
    run.init()
    events = []
    for _ in range(4):
        events += [
            run.envelope("trainer.forward_backward", forward([40, 41, 42, 43])),
            run.envelope("trainer.optimize_step", ADAM),
        ]
    for event in events:
        assert msgpack.unpackb(run.post(event).content)["status"] in ("accepted", "running")
    ended = [run.wait(event["event_id"]) for event in events]
    losses = [event["result"]["metrics"]["loss_sum"] for event in ended[::2]]
    assert [event["result"]["metrics"]["step"] for event in ended[1::2]] == [1, 2, 3, 4]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 4, "each backward sees the step before it"
    late = run.envelope("trainer.optimize_step", ADAM, metadata={"index": 2, "run_id": run.cuid})
    assert run.post(late).json()["code"] == "event_out_of_order"


def test_a_poll_is_held_until_the_event_ends_and_unknown_ones_are_404(run: Run, server: served.Server) -> None:
    assert run.http.get("/v1/events/event_zzzzzzzzzzzz").status_code == 404
    mine = run.envelope("trainer.init_run", {"base_model": run.model, "lora_config": LORA, "load_optimizer": False})
    run.post(mine)
    assert Run(server).http.get(f"/v1/events/{mine['event_id']}").status_code == 404, "another run's event"
    started = time.monotonic()
    assert run.wait(mine["event_id"])["status"] == "succeeded"
    assert time.monotonic() - started < 20, "answered when it ended, not when the wait was over"


def test_a_run_that_was_never_initialised_says_so(run: Run) -> None:
    failed = run.do("trainer.forward", forward([40, 41]))
    assert failed["error"]["code"] == "run_lost"


def test_a_body_of_many_megabytes_is_taken(run: Run, server: served.Server) -> None:
    run.init()
    tokens = [40 + i % 50 for i in range(4000)]
    payload = forward(tokens)
    payload["data"] *= 60
    body = msgpack.packb(run.envelope("trainer.forward", payload))
    assert len(body) > 2_000_000
    payload["data"][0]["weights"] = [0.0]  # the last datum is checked too; nothing that large is computed here
    event = run.envelope("trainer.forward", payload)
    event["metadata"]["index"] = run.index
    assert run.post(event).status_code == 200
    assert run.wait(event["event_id"])["error"]["code"] == "shape_mismatch"


def sampling_run(server: served.Server) -> tuple[str, httpx.Client]:
    with server.control() as control:
        session = control.post(f"{V1}/service-sessions", json={}).json()["service_session_cuid"]
        body = {"base_model": served.MODEL, "source_checkpoint_uri": ""}
        created = control.post(f"{V1}/service-sessions/{session}/sampling-runs", json=body).json()
    headers = {"Authorization": f"Bearer {created['actor_jwt']['token']}"}
    client = httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60)
    return f"/v1/sampling-runs/{created['sampling_run_cuid']}/sample", client


def sample_body(**changes: Any) -> dict[str, Any]:
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [40, 41, 42]}]}
    params = {"max_tokens": 30, "temperature": 2.0, "top_k": -1, "top_p": 1}
    flags = {"return_text": False, "return_token_logprobs": True, "return_prompt_logprobs": False}
    body = {"request_id": "req_1", "prompt": prompt, "sampling_params": params, "num_samples": 2}
    return body | flags | {"topk_prompt_logprobs": 0} | changes


def test_a_request_id_is_sampled_once(server: served.Server) -> None:
    path, client = sampling_run(server)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: client.post(path, json=sample_body()).json(), range(4)))
    assert all(answer["sequences"] == answers[0]["sequences"] for answer in answers), "unseeded, yet all the same"
    again = client.post(path, json=sample_body()).json()
    assert again == answers[0]
    fresh = client.post(path, json=sample_body(request_id="req_2")).json()
    assert fresh["sequences"] != answers[0]["sequences"]


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": {"chunks": []}},
        {"prompt": "hello"},
        {"prompt": {"chunks": [{"type": "encoded_text", "tokens": [1.5]}]}},
        {"prompt": {"chunks": [{"type": "encoded_text", "tokens": [10**7]}]}},
        {"sampling_params": {}},
        {"sampling_params": {"max_tokens": 0}},
        {"sampling_params": {"max_tokens": 5, "top_p": 0}},
        {"sampling_params": {"max_tokens": 5, "temperature": -1}},
        {"sampling_params": {"max_tokens": 5, "seed": "x"}},
        {"sampling_params": {"max_tokens": 5, "stop": [""]}},
        {"num_samples": 0},
        {"request_id": "../x"},
        {"request_id": 5},
    ],
)
def test_a_malformed_sample_request_gets_400(server: served.Server, changes: dict[str, Any]) -> None:
    path, client = sampling_run(server)
    answer = client.post(path, json=sample_body(**changes))
    assert answer.status_code == 400, answer.text
    assert set(answer.json()) == {"code", "message"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"a": NaN}', b"\xff\xfe", b"[" * 100_000])
def test_bodies_that_are_no_json_object_get_400(server: served.Server, body: bytes) -> None:
    path, client = sampling_run(server)
    assert client.post(path, content=body).status_code == 400
    with server.control() as control:
        session = control.post(f"{V1}/service-sessions", json={}).json()["service_session_cuid"]
        assert control.post(f"{V1}/service-sessions/{session}/training-runs", content=body).status_code == 400


def test_a_client_that_hangs_up_stops_its_generation(server: served.Server) -> None:
    path, client = sampling_run(server)
    params = {"max_tokens": 12000, "temperature": 1.0, "top_k": -1, "top_p": 1, "stop_token_ids": [0]}
    timeout = httpx.Timeout(60, read=1.0)
    with pytest.raises(httpx.ReadTimeout):
        client.post(path, json=sample_body(request_id="req_long", sampling_params=params), timeout=timeout)
    answers = server.context.sampling._answers

    def stopped() -> bool:
        return any(request == "req_long" and answer.task.done() for (_, request), answer in list(answers.items()))

    deadline = time.monotonic() + 60
    while not stopped() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [answer.task.cancelled() for (_, request), answer in answers.items() if request == "req_long"] == [True]


def test_heartbeats_are_answered(run: Run) -> None:
    answer = run.http.post("/v1/client/heartbeat", json={"sdk": "pytrio", "sdk_version": "0.2.8"})
    assert answer.json()["heartbeat_ms"] >= 1000
