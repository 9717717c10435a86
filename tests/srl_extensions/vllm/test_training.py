"""Runs whose models sample in servers: every turn is of the version that was published."""

import contextlib
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from srl_agents.errors import BackendError
from srl_agents.event_loop import run as run_loop
from srl_agents.llm.backends.token_backend import Request
from srl_agents.llm.sampling import Sampling
from srl_extensions.vllm import fleet
from srl_extensions.vllm import models as served_models
from srl_extensions.vllm import publisher as served_publisher
from srl_train.errors import ConfigError, TrainingError
from srl_train.loading import weights_digest
from srl_train.trainer import Trainer
from tests.servers import vllm_stub
from tests.servers.vllm_program import interpreter
from tests.servers.vllm_stub import stub_server

SETTINGS = {"models__adapters": {"rank": 4}, "algorithm__learning_rate": 0.01}


@pytest.fixture
def stub(tiny_folder):
    with stub_server(Path(tiny_folder)) as running:
        yield running


@pytest.fixture
def served_run(short_run, tmp_path, stub):  # whose end comes after that of the trainers
    """Makes trainers of short runs whose models sample at these servers."""
    with contextlib.ExitStack() as stack:

        def make(*stubs, out="run", **settings):
            own = {"name": "vllm", "servers": [one.url for one in stubs], "deadline": 30.0}
            published = tmp_path / "published"
            published.mkdir(exist_ok=True)
            backend = {**own, "folder": str(published), **settings.pop("backend", {})}
            config = short_run(**{**SETTINGS, **settings, "backend": backend})
            return stack.enter_context(Trainer(config, tmp_path / out))

        yield make


def versions(episodes):
    """Agent -> the versions that its turns were sampled from."""
    found = {}
    for episode in episodes:
        for step in (step for turn in episode.turns for step in turn):
            if step.decision.tokens is not None:
                found.setdefault(step.agent, set()).add(step.decision.tokens.model)
    return found


def test_every_turn_is_of_the_newest_version(served_run, stub):
    trainer = served_run(stub, rounds=3)
    run = trainer.run
    for number in range(3):
        digests = {m: weights_digest(own.weights()) for m, own in run.learners.items()}
        result = trainer.train_round()
        for agent, sampled_by in versions(result.episodes).items():
            [one] = sampled_by
            model = run.seats[agent]
            assert (one.version, one.adapter) == (number, model)
            assert one.digest == digests[model]
        for model, row in result.row["models"].items():
            assert row["updates"] == number + 1
            assert row["sampler_divergence_max"] < 1e-4, model
            assert row["staleness"] == {"mean": 0.0, "max": 0}
    assert len(stub.adapters) == 4  # two models, and one version before of each
    asked = {body["model"] for body in stub.bodies}
    assert (
        len({name for name in asked if name.startswith("model_0@")}) == 4
    )  # 0 to 3, no name twice


def test_nothing_is_left_where_the_run_ends(served_run, stub, tmp_path):
    trainer = served_run(stub)
    trainer.fit()
    trainer.close()
    assert not stub.adapters
    assert not list((tmp_path / "published").iterdir())


def altered(tensors, path):
    save_file({name: tensor + 0.05 for name, tensor in tensors.items()}, path)


def test_weights_that_arrive_altered_are_refused_and_the_version_before_goes_on(
    served_run, stub, monkeypatch
):
    trainer = served_run(stub)
    run = trainer.run
    names = set(stub.adapters)
    weights = {name: own + 0.01 for name, own in run.learners["model_0"].weights().items()}
    with monkeypatch.context() as patch:
        patch.setattr(served_publisher, "save_file", altered)
        with pytest.raises(BackendError, match=r"differ by .* from the learner's"):
            run.players.publisher.publish("model_0", 1, weights)
    assert run.players.publisher.current("model_0").version == 0
    assert set(stub.adapters) == names
    [episode, *_] = trainer.train_round().episodes
    assert {one.version for one in versions([episode])["agent_0"]} == {0}


def test_tokens_that_the_model_lacks_fail_their_episodes_and_refuse_publications(
    served_run, stub, monkeypatch
):
    trainer = served_run(stub, max_failed_fraction=1.0)
    run = trainer.run
    with monkeypatch.context() as patch:
        patch.setattr(vllm_stub, "_choice", vllm_stub.choice_of_another_vocabulary(10**6))
        result = trainer.train_round()
        failures = [episode.failure for episode in result.episodes if episode.failure]
        assert failures and all("answered with token 1000000" in one for one in failures)
        weights = run.learners["model_0"].weights()
        weights = {name: own + 0.01 for name, own in weights.items()}
        with pytest.raises(BackendError, match="answered with token 1000000"):
            run.players.publisher.publish("model_0", 1, weights)
    assert run.players.publisher.current("model_0").version == 0


def test_a_server_that_was_restarted_holds_all_versions_before_it_is_asked(
    served_run, stub, monkeypatch
):
    trainer = served_run(stub, rounds=2)
    trainer.train_round()
    before = set(stub.adapters)
    stub.stop()
    again = threading.Timer(0.5, stub.start)  # with the base alone
    again.start()
    try:
        result = trainer.train_round()
    finally:
        again.join()
    assert result.row["environment"]["failed_episodes"] == 0
    assert {v.version for own in versions(result.episodes).values() for v in own} == {1}
    assert before & set(stub.adapters)


def test_a_run_goes_on_from_a_checkpoint_with_its_weights_published(served_run, stub):
    first = served_run(stub, rounds=2, checkpoints__every=1)
    first.train_round()
    weights = {m: weights_digest(own.weights()) for m, own in first.run.learners.items()}
    first.close()
    second = served_run(stub, rounds=2, checkpoints__every=1)
    second.load_checkpoint()
    published = second.run.players.publisher.current("model_1")
    assert (published.version, published.digest) == (1, weights["model_1"])
    assert second.fit()["training_completed"]


def test_past_versions_and_frozen_models_play_as_adapters(served_run, stub, tiny_folder):
    trainer = served_run(
        stub,
        models__count=1,
        models__frozen_models={"still": tiny_folder},
        opponent_pools={"past": {"every": 1, "draw": "nash", "nash_games": 1}},
        environment__options={"num_agents": 3, "max_cycles": 2},
        seats={"agent_1": "past", "agent_2": "still"},
    )
    assert "still" not in trainer.run.players.modules
    base = trainer.run.players.backends["model_0"]
    assert all(own is base for own in trainer.run.players.backends.values())
    result = trainer.train_round()
    sampled_by = versions(result.episodes)
    [past] = sampled_by["agent_1"]
    assert (past.version, past.adapter) == ("model_0@0", "past")
    [still] = sampled_by["agent_2"]
    assert still.adapter == "still"
    trainer.train_round()
    assert trainer.run.learners.keys() == {"model_0"}


def test_whole_models_have_a_server_each(served_run, tiny_folder):
    with stub_server(Path(tiny_folder), served_name="model_0") as one, stub_server(
        Path(tiny_folder), served_name="model_1"
    ) as two:  # fmt: skip
        trainer = served_run(one, two, models__adapters=None)
        trainer.train_round()
        result = trainer.train_round()
        assert {v.version for own in versions(result.episodes).values() for v in own} == {1}
        assert all(m["sampler_divergence_max"] < 1e-4 for m in result.row["models"].values())
        folder = trainer.run.players.publisher.folder
        [newest] = folder.glob("model_1@2.*/model.safetensors")
        trained = trainer.run.learners["model_1"].weights()
        assert all(torch.equal(own, trained[n]) for n, own in load_file(newest).items())
        trainer.close()  # while its servers are there to unload from


def test_what_older_weights_sample_between_publications_is_stale_by_them(served_run, stub):
    trainer = served_run(stub, rounds=4, backend={"publish": {"when": "updates", "every": 2}})
    staleness = [
        trainer.train_round().row["models"]["model_0"]["staleness"]["max"] for _ in range(4)
    ]
    assert staleness == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"models__sampling": {"top_p": 0.9}}, "backend.name vllm compares model_0"),
        ({"backend": {"servers": []}}, "servers: give addresses"),
        ({"backend": {"publish": {"when": "updates", "every": 9}}}, "publish.every: got 9"),
        ({"models__quantization": "nf4"}, "models.quantization: got 'nf4'"),
        ({"models__adapters": None}, r"backend.servers: got 1 where 2 whole models"),
        ({"parallel": "fsdp", "models__adapters": None}, "backend.name: got 'vllm'"),
    ],
)
def test_what_servers_cannot_do_is_refused(served_run, stub, settings, words):
    with pytest.raises(ConfigError, match=words):
        _ = served_run(stub, **settings).run


def test_a_server_of_other_weights_ends_training(served_run, stub):
    trainer = served_run(stub, backend={"max_divergence": 1e-12, "probe_tolerance": 1.0})
    with pytest.raises(TrainingError, match=r"max_divergence is 1e-12"):
        trainer.train_round()


def test_published_files_go_though_a_server_refuses_to_unload(served_run, stub, tmp_path):
    trainer = served_run(stub)
    trainer.train_round()
    assert any((tmp_path / "published").iterdir())
    first, *others = stub.adapters
    assert others
    stub.adapters.pop(first)  # somebody else unloaded it: status 404
    with pytest.raises(BackendError, match=r"1 publications were not unloaded, the first: .*404"):
        trainer.close()
    assert not stub.adapters, "the others are unloaded"
    assert not any((tmp_path / "published").iterdir())
    trainer.close()  # once more, nothing is left to do


@pytest.mark.parametrize("folder", ["nowhere", "a_file"])
def test_a_folder_that_takes_no_weights_is_refused_before_anything_is_loaded(
    served_run, stub, tmp_path, monkeypatch, folder
):
    (tmp_path / "a_file").write_text("")
    monkeypatch.setattr(served_models, "learning_models", None)
    with pytest.raises(ConfigError, match=r"backend.folder: no weights can be written to '.*/"):
        _ = served_run(stub, backend={"folder": str(tmp_path / folder)}).run


@pytest.mark.parametrize("late", ["_build_learner", "policies_by_seats"])
def test_an_interrupt_as_a_run_is_put_together_leaves_nothing(
    served_run, stub, tiny_folder, tmp_path, monkeypatch, late
):
    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"srl_train.local.{late}", interrupted)
    trainer = served_run(
        stub,
        models__frozen_models={"still": tiny_folder},  # which is published by then
        environment__options={"num_agents": 3, "max_cycles": 2},
        seats={"agent_2": "still"},
    )
    with pytest.raises(KeyboardInterrupt):
        _ = trainer.run
    assert not any((tmp_path / "published").iterdir())
    assert stub.counts["/v1/load_lora_adapter"] == stub.counts["/v1/unload_lora_adapter"] == 1


def test_another_configuration_ends_the_servers_of_the_one_before(served_run, stub, tmp_path):
    trainer = served_run(stub)
    names = set(trainer.run and stub.adapters)
    trainer.config = trainer.config.replaced(seed=5)
    assert trainer.run.config.seed == 5
    assert names and not names & set(stub.adapters), "the first run's are unloaded"
    assert len(list((tmp_path / "published").iterdir())) == 1


def test_servers_that_a_run_starts_write_their_logs_into_its_folder(
    served_run, stub, tmp_path, monkeypatch
):
    started = []

    def managed(specs, *, concurrency, deadline, **settings):
        started.extend(specs)
        return fleet.Fleet.attached({"base": [stub.url]}, concurrency=8, deadline=30.0)

    monkeypatch.setattr(fleet.Fleet, "managed", managed)
    python = {"python": interpreter(tmp_path)}
    assert served_run(backend={"servers": [], "managed": python}).run
    assert [spec.log_folder for spec in started] == [tmp_path / "run" / "server-logs"]


@pytest.fixture
def whole(served_run, tiny_folder):
    """A run of one whole model, its server, and the probabilities that a test's request is for."""
    with stub_server(Path(tiny_folder), served_name="model_0") as one:
        trainer = served_run(
            one,
            models__adapters=None,
            models__count=1,
            models__frozen_models={},
            rounds=3,
        )
        trainer.train_round()
        yield trainer, one
        trainer.close()


def raised(trainer, by=0.01):
    return {n: own + by for n, own in trainer.run.learners["model_0"].weights().items()}


def logprob_now(trainer):
    backend = trainer.run.players.backends["model_0"]
    request = Request((5, 9, 12), Sampling(max_new_tokens=1), 0, answers=((7,), (8,)))
    return run_loop(backend.complete(request))


@pytest.mark.parametrize("fault", ["half a load", "altered"])
def test_a_whole_model_that_does_not_come_through_gives_way_to_the_version_before(
    whole, monkeypatch, fault
):
    trainer, stub = whole
    publisher = trainer.run.players.publisher
    with monkeypatch.context() as patch:
        if fault == "altered":
            patch.setattr(served_publisher, "save_file", altered)
            words = r"differ by .* from the learner's"
        else:
            stub.faults.script.append("500")
            stub.struck_paths = {"/collective_rpc"}
            words = "scripted 500"
        with pytest.raises(BackendError, match=words):
            publisher.publish("model_0", 2, raised(trainer))
    assert stub.counts["/pause?mode=wait"] == stub.counts["/resume"] + (fault != "altered")
    assert publisher.current("model_0").version == 1
    said = logprob_now(trainer)
    assert said.model.version == 1
    held = trainer.run.learners["model_0"].weights()
    there = dict(stub._backend.model.named_parameters())
    assert all(torch.equal(there[name], own) for name, own in held.items())
    trainer.train_round()


def test_where_no_whole_weights_can_be_loaded_nobody_is_answered(whole):
    trainer, stub = whole
    publisher = trainer.run.players.publisher
    stub.faults.always = lambda body: "500"
    stub.struck_paths = {"/collective_rpc"}
    with pytest.raises(BackendError, match=r"scripted 500; and .*1.* cannot be put back"):
        publisher.publish("model_0", 2, raised(trainer))
    asked = len(stub.bodies)
    with pytest.raises(BackendError, match="was not published whole"):
        logprob_now(trainer)
    assert len(stub.bodies) == asked
    assert not stub._running.is_set(), "the server itself answers nobody"
    stub.faults.always = lambda body: None
    publisher.publish("model_0", 2, raised(trainer))
    assert logprob_now(trainer).model.version == 2
