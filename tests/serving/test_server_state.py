"""What survives a restart, what is evicted, and what can never be lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import served

from agentic_rl.serving import sampling

TOKENS = [40, 41, 42, 43, 44]


def data(trio: Any) -> list[Any]:
    known = trio.ModelInput.from_ints(TOKENS[:-1])
    return [trio.Datum(model_input=known, loss_fn_inputs={"target_tokens": TOKENS[1:]})]


def logprobs(trio: Any, client: Any) -> np.ndarray:
    return np.asarray(client.forward(data(trio)).result(60).loss_fn_outputs[0]["logprobs"].data)


def train(trio: Any, client: Any) -> None:
    client.forward_backward(data(trio))
    client.optim_step(trio.AdamParams(learning_rate=1e-2)).result(60)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_checkpoints_and_runs_survive_a_restart(tmp_path: Path, home: Path) -> None:
    state = tmp_path / "state"
    with served.serving(state) as server:
        port = int(server.url.rsplit(":", 1)[1])
        trio = served.point_sdk_at(server, home)
        service = trio.ServiceClient(api_key=served.API_KEY)
        client = service.create_lora_training_client(served.MODEL, rank=8, seed=1)
        train(trio, client)
        saved = client.save_state("kept").result(60).path
        weights = client.save_weights_for_sampler("kept").result(60).path
        sampler = client.create_sampling_client(weights)
        prompt = trio.ModelInput.from_ints(TOKENS)
        scores = sampler.compute_logprobs(prompt).result(60)
        train(trio, client)
        after_two = logprobs(trio, client)
    with served.serving(state, port=port):
        # The same client goes on: its run was put on disk when the server stopped.
        assert logprobs(trio, client) == pytest.approx(after_two, abs=1e-6)
        assert sampler.compute_logprobs(prompt).result(60)[1:] == pytest.approx(scores[1:], abs=1e-6)
        # So does one that resumes, optimizer included: its second step is the other's second step.
        resumed = service.create_training_client_from_state_with_optimizer(saved)
        train(trio, resumed)
        assert logprobs(trio, resumed) == pytest.approx(after_two, abs=1e-6)
        # Without the optimizer the step is another one.
        fresh = service.create_lora_training_client(served.MODEL, rank=8, seed=7)
        fresh.load_state(saved).result(60)
        train(trio, fresh)
        assert np.abs(logprobs(trio, fresh) - after_two).max() > 1e-4
        del client, resumed, fresh, sampler, service


def test_a_killed_server_loses_no_checkpoint_and_says_what_is_lost(tmp_path: Path, home: Path) -> None:
    """A kill parks nothing; it is imitated by a copy of the state folder from before the shutdown."""
    state, copy = tmp_path / "state", tmp_path / "copy"
    with served.serving(state) as server:
        port = int(server.url.rsplit(":", 1)[1])
        trio = served.point_sdk_at(server, home)
        service = trio.ServiceClient(api_key=served.API_KEY)
        client = service.create_lora_training_client(served.MODEL, rank=8, seed=1)
        train(trio, client)
        saved = client.save_state("kept").result(60).path
        train(trio, client)
        shutil.copytree(state, copy)
    with served.serving(copy, port=port):
        started = time.monotonic()
        with pytest.raises(trio.PyTrioError) as lost:
            client.forward_backward(data(trio)).result(60)
        assert lost.value.code == "run_lost"
        assert saved in lost.value.message
        assert time.monotonic() - started < 30
        assert service.create_training_client_from_state(saved).lora.rank == 8
        del client, service


def test_the_name_of_a_checkpoint_is_taken_once(trio: Any, service: Any) -> None:
    client = service.create_lora_training_client(served.MODEL, rank=8)
    first = client.save_state("name").result(60).path
    with pytest.raises(trio.PyTrioError) as taken:
        client.save_state("name").result(60)
    assert taken.value.code == "checkpoint_exists"
    assert client.save_state("name", overwrite=True).result(60).path == first
    assert client.save_weights_for_sampler("name").result(60).path != first


def test_temporary_checkpoints_go_the_least_recently_used_first(tmp_path: Path, home: Path) -> None:
    with served.serving(tmp_path / "state", temporary_checkpoints=2, loaded_samplers=1) as server:
        trio = served.point_sdk_at(server, home)
        service = trio.ServiceClient(api_key=served.API_KEY)
        client = service.create_lora_training_client(served.MODEL, rank=8)
        prompt = trio.ModelInput.from_ints(TOKENS)
        samplers = [client.save_weights_and_get_sampling_client() for _ in range(3)]
        kept = client.save_weights_for_sampler("kept").result(60).path
        for sampler in samplers:
            sampler.compute_logprobs(prompt).result(60)
            assert len(server.context.sampling._loaded) <= 1
        samplers[0].compute_logprobs(prompt).result(60)
        server.context.evict()
        left = {c.uri for c in server.context.store.checkpoints.values()}
        assert len(left) == 3
        assert kept in left
        samplers[0].compute_logprobs(prompt).result(60)
        with pytest.raises(trio.PyTrioError) as evicted:
            samplers[1].compute_logprobs(prompt).result(60)
        assert evicted.value.status_code == 404
        del client, samplers, sampler, service


def test_what_has_just_been_saved_is_not_evicted_before_it_can_be_opened(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served.serving(tmp_path / "state", temporary_checkpoints=2) as server:
        store = server.context.store
        write, open_ = store.write_checkpoint, store.add_sampling_run

        def evicting[**P, T](work: Callable[P, T]) -> Callable[P, T]:
            def then_evict(*args: P.args, **options: P.kwargs) -> T:
                done = work(*args, **options)
                server.context.evict()
                return done

            return then_evict

        monkeypatch.setattr(store, "write_checkpoint", evicting(write))
        monkeypatch.setattr(store, "add_sampling_run", evicting(open_))
        trio = served.point_sdk_at(server, home)
        service = trio.ServiceClient(api_key=served.API_KEY)
        client = service.create_lora_training_client(served.MODEL, rank=8)
        prompt = trio.ModelInput.from_ints(TOKENS)
        for _ in range(5):
            client.save_weights_and_get_sampling_client().compute_logprobs(prompt).result(60)
        assert len(store.checkpoints) == 2
        del client, service


def test_weights_that_a_run_has_moved_on_from_make_way_for_new_ones(
    trio: Any, service: Any, server: served.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = service.create_lora_training_client(served.MODEL, rank=8)
    old, new = client.save_weights_and_get_sampling_client(), client.save_weights_and_get_sampling_client()
    prompt = trio.ModelInput.from_ints(TOKENS)
    before = old.compute_logprobs(prompt).result(60)
    loaded = server.context.sampling._loaded
    [*_, of_old] = loaded
    new.compute_logprobs(prompt).result(60)
    assert of_old in loaded  # it was asked a moment ago
    monkeypatch.setattr(sampling, "SETTLED_SECONDS", 0.0)
    newer = client.save_weights_and_get_sampling_client()
    newer.compute_logprobs(prompt).result(60)
    assert of_old not in loaded
    assert len(loaded) == 1
    assert server.context.engine._studio._pool.spare is None  # the new weights took over the memory of the old ones
    assert old.compute_logprobs(prompt).result(60)[1:] == before[1:]


def test_a_checkpoint_expires_when_its_time_is_up(trio: Any, service: Any, server: served.Server) -> None:
    client = service.create_lora_training_client(served.MODEL, rank=8)
    path = client.save_weights_for_sampler("brief", ttl_seconds=1).result(60).path
    time.sleep(1.1)
    with pytest.raises(trio.PyTrioError) as expired:
        client.create_sampling_client(path)
    assert expired.value.code == "checkpoint_not_found"
    server.context.evict()
    assert path not in server.context.store.checkpoints


def test_an_idle_run_is_parked_and_comes_back(trio: Any, service: Any, server: served.Server) -> None:
    client = service.create_lora_training_client(served.MODEL, rank=8)
    train(trio, client)
    before = logprobs(trio, client)
    run = client.task_id
    client.forward_backward(data(trio)).result(60)
    server.context.training.park(run)
    assert run in server.context.training._live, "its gradient cannot be saved, so it stays"
    client.optim_step(trio.AdamParams(learning_rate=0.0)).result(60)
    server.context.training.park(run)
    assert run not in server.context.training._live
    assert logprobs(trio, client) == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize(
    "uri",
    [
        "trio://run_zzzzzzzzzzzz/sampler_weights/nothing",
        "trio://../sampler_weights/x",
        "trio://run/sampler_weights/..",
        "file:///etc/passwd",
        "local://run/sampler_weights/x",
        "",
    ],
)
def test_unknown_addresses_are_refused(service: Any, trio: Any, uri: str) -> None:
    with pytest.raises(trio.PyTrioError) as unknown:
        service.create_training_client_from_state(uri)
    assert unknown.value.status_code in (400, 404)


def test_metadata_and_downloads(trio: Any, service: Any, tmp_path: Path) -> None:
    client = service.create_lora_training_client(served.MODEL, rank=8, seed=5)
    path = client.save_state("shown").result(60).path
    rest = service.create_rest_client()
    run = rest.get_training_run(client.task_id).result(30)
    assert run.lora_rank == 8
    listed = rest.list_checkpoints(client.task_id).result(30)
    assert [c.path for c in listed.checkpoints] == [path]
    cuid = listed.checkpoints[0].checkpoint_id
    assert rest.list_training_runs().result(30).training_runs
    assert rest.list_user_checkpoints().result(30).checkpoints
    assert rest.list_sessions().result(30)
    assert rest.get_session(service.service_session_cuid).result(30)
    sampler = client.create_sampling_client(path)
    assert rest.get_sampler(sampler.task_id).result(30)
    rest.download_checkpoint(cuid, str(tmp_path / "saved.tar")).result(60)
    assert (tmp_path / "saved.tar").stat().st_size > 1000
    rest.delete_checkpoint(client.task_id, cuid).result(30)
    assert not rest.list_checkpoints(client.task_id).result(30).checkpoints
