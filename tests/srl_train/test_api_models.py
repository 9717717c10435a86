"""API models next to models in training: evaluated, and used to collect data."""

import json
from functools import partial

import pytest

from srl_agents.episode import read_jsonl
from srl_extensions.offline.collect import build_policies
from srl_extensions.offline.data import demonstration
from srl_train import cli
from srl_train.build import build_run
from srl_train.environment import build_env
from srl_train.errors import ConfigError
from srl_train.round import train_round
from tests.servers.chat_server import chat_server
from tests.srl_train.run_state import same, weights

PAVLOV = "coop_compete_pair_v0.pavlov"
GAME = {"environment__options": {"num_agents": 3, "max_cycles": 2}}
COACH = {**GAME, "models__frozen_models": {"coach": "openai:m"}, "seats": {"agent_2": "coach"}}


@pytest.fixture
def server():
    with chat_server() as running:
        yield running


def test_models_learn_next_to_an_api_model(server, short_run):
    own = {"agent_2": {"max_new_tokens": 64, "temperature": 0.5}}
    run = build_run(short_run(**COACH, models__adapters={"rank": 2}, models__agent_sampling=own))
    assert list(run.learners) == ["model_0", "model_1"] and server.bodies == []
    start = weights(run)
    rounds = [train_round(run, number) for number in range(2)]
    now = weights(run)
    assert not same(now["model_0"], start["model_0"]) and not same(now["model_1"], start["model_1"])
    assert list(rounds[0].row["models"]) == ["model_0", "model_1"]
    for result in rounds:
        for episode in result.episodes:
            assert episode.failure is None and episode.seats["agent_2"] == "coach"
            said = [step.decision for step in episode.steps_of("agent_2")]
            assert {(one.text, one.tokens) for one in said} == {("cooperate", None)}
            assert all(step.decision.tokens for step in episode.steps_of("agent_0"))
    assert len(server.bodies) == 2 * 4 * 2
    assert {(body["max_tokens"], body["temperature"]) for body in server.bodies} == {(64, 0.5)}
    assert run.players.chat_models["coach"].usage.answers == 16


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"models__base": "openai:m"}, "models.base: .*'openai:m'"),
        ({**COACH, "models__constrained": True}, "models.constrained: "),
    ],
)
def test_api_models_are_refused_for_training_and_constraints(short_run, settings, said):
    with pytest.raises(ConfigError, match=said) as caught:
        short_run(**settings)
    assert "\n" not in str(caught.value)


def test_settings_that_the_api_does_not_know_are_refused_before_anything_is_played(
    server, short_run
):
    with pytest.raises(ConfigError, match=r"top_k must be 0.*models\.agent_sampling"):
        build_run(short_run(**COACH, models__agent_sampling={"agent_2": {"top_k": 3}}))
    # Settings of other agents do not apply to the model.
    build_run(short_run(**COACH, models__agent_sampling={"agent_1": {"top_k": 3}}))
    assert server.bodies == []


def test_api_models_are_evaluated(server, tmp_path):
    out = tmp_path / "scores.json"
    words = ["eval", "--policy", "openai:m", "--scenario", PAVLOV, "--episodes", "2"]
    words += ["--temperature", "0.5"]
    assert cli.main([*words, "--out", str(out), "--record", str(tmp_path)]) == 0
    record = json.loads(out.read_text())
    assert record["focal"]["kind"] == "api" and record["focal"]["name"] == "openai:m"
    assert record["focal"]["usage"]["answers"] == len(server.bodies) > 0
    assert record["focal"]["usage"]["prompt_tokens"] == 10 * len(server.bodies)
    [*episodes] = read_jsonl(tmp_path / f"{PAVLOV}.jsonl")
    assert "openai:m" in episodes[0].seats.values()
    assert {(body["max_tokens"], body["temperature"]) for body in server.bodies} == {(2048, 0.5)}


def test_a_missing_key_is_reported_before_the_first_episode(server, monkeypatch, capsys, short_run):
    monkeypatch.delenv("OPENAI_API_KEY")
    assert cli.main(["eval", "--policy", "openai:m", "--scenario", PAVLOV]) == 2
    assert "openai:m needs a key: set OPENAI_API_KEY" in capsys.readouterr().err
    with pytest.raises(Exception, match="OPENAI_API_KEY"):
        build_run(short_run(**COACH))


def collected(server, tmp_path, *words):
    file = tmp_path / "games.jsonl"
    said = iter(range(1000))
    server.answer = lambda body: ("compete", "well\ncooperate", "?")[next(said) % 3]
    command = ["collect", "--environment", "coop_compete_pair_v0", "--out", str(file), *words]
    assert cli.main([*command, "--set", "environment.options.max_cycles=2"]) == 0
    return [*read_jsonl(file)]


def test_answers_of_api_models_are_trained_on_as_text(server, tmp_path, short_run):
    games = collected(
        server, tmp_path, "--players", "openai:m", "--episodes", "6", "--group-size", "6"
    )
    assert games[0].seats == dict.fromkeys(("agent_0", "agent_1"), "openai:m")
    run = build_run(short_run())
    chat = run.players.backends["model_0"].chat
    one = demonstration(games[0], "agent_0", run.view, chat, drop_parse_failures=False)
    learned = [token for token, wanted in zip(one.input_ids, one.answers, strict=True) if wanted]
    steps = games[0].steps_of("agent_0")
    assert len(steps) == 2
    assert learned == [
        token for s in steps for token in (*chat.answer(s.decision.text), chat.end_of_turn)
    ]


def test_collection_uses_the_frozen_models_of_a_configuration(server, short_run):
    config = short_run(**COACH)
    found = build_policies(
        config, partial(build_env, config), dict.fromkeys(("agent_0", "agent_1"), "uniform")
    )
    assert found["agent_2"].name == "openai:m"
