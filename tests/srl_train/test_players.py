"""Models of a run sample in evaluations as in training."""

from pathlib import Path

import pytest

from srl_agents.llm.sampling import Sampling
from srl_agents.rollout import play_many
from srl_envs import registry
from srl_envs.errors import UntrustedError
from srl_envs.scenarios import Scenario
from srl_extensions.offline.collect import build_policies
from srl_train.cli import main
from srl_train.config import yaml_file
from srl_train.player_names import parse_player
from srl_train.players import Resolver

SEATS = ("agent_0", "agent_1")
GAME = {"num_agents": 2, "max_cycles": 3}
FREE = Scenario("both", "coop_compete_v0", "both seats are focal", SEATS, {}, GAME)


@pytest.fixture
def run_folder(tmp_path, tiny_folder):
    """Makes a run's folder with these sections."""

    def make(**sections):
        models = {"count": 2, "base": tiny_folder, **sections.pop("models", {})}
        folder = tmp_path / "run"
        (folder / "models").mkdir(parents=True)
        config = yaml_file.from_tree({"models": models, **sections})
        (folder / "config.yaml").write_text(yaml_file.dump(config))
        for name in config.models.names:
            (folder / "models" / name).symlink_to(tiny_folder)
        return folder

    return make


def make_env():
    return registry.make("coop_compete_v0", **GAME)


def asked(policies):
    """Seat -> (how its answers were sampled, its prompts as text), of one game."""
    [episode] = play_many(make_env, dict(zip(SEATS, policies, strict=True)), [0])
    assert episode.failure is None
    found = {}
    for seat, policy in zip(SEATS, policies, strict=True):
        tokenizer = policy._backend.tokenizer
        prompts = [s.decision.tokens.prompt_ids for s in episode.steps_of(seat)]
        found[seat] = (
            policy._per_agent.get(seat, policy._sampling),
            [tokenizer.decode(prompt) for prompt in prompts],
        )
    return found


def collected(who, **sections):
    config = yaml_file.from_tree(sections)
    return list(build_policies(config, make_env, dict.fromkeys(SEATS, str(who))).values())


def scored(who, **answering):
    resolver = Resolver(overrides=answering)
    team = resolver.policies(parse_player(str(who)), FREE.make)
    return (team * 2)[:2]


def test_a_model_is_loaded_once(run_folder):
    resolver, run = Resolver(), run_folder()
    names = [f"{run}:model_0", str(run), f"{run}:model_1"]
    [[first], both, [second]] = [resolver.policies(parse_player(n), make_env) for n in names]
    assert [one._backend for one in both] == [first._backend, second._backend]


@pytest.mark.parametrize("seat", [scored, collected])
def test_agents_have_the_sampling_of_their_run(seat, run_folder):
    cold = {"agent_0": {"temperature": 0.01}, "agent_1": {"temperature": 0.02}}
    found = asked(seat(run_folder(models={"agent_sampling": cold})))
    assert [one.temperature for one, _ in found.values()] == [0.01, 0.02]


def test_overrides_replace_the_sampling_of_all_agents(run_folder):
    run = run_folder(models={"agent_sampling": {"agent_0": {"temperature": 0.01}}})
    found = asked(scored(run, temperature=0.7, max_new_tokens=2))
    assert {one for one, _ in found.values()} == {Sampling(0.7, max_new_tokens=2)}
    record = Resolver().record(parse_player(str(run)))
    assert record["agent_sampling"]["agent_0"]["temperature"] == 0.01


def test_an_untrusted_run_uses_no_api_model(run_folder, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "srl_extensions.offline.collect.models_of_run", lambda folder: {"model_0": "there"}
    )
    ask = "srl_train.players.api_model"
    monkeypatch.setattr(ask, lambda who: asked.append(who) or 1 / 0)
    config = yaml_file.from_tree(
        {
            "models": {"count": 1, "frozen_models": {"wise": "openai:gpt-5-mini"}},
            "seats": {"agent_1": "wise"},
        }
    )
    given, run = {"agent_0": "uniform"}, Path("runs/of_others")
    with pytest.raises(UntrustedError, match="openai:gpt-5-mini"):
        build_policies(config, make_env, given, run)
    assert not asked
    with pytest.raises(ZeroDivisionError):
        build_policies(config, make_env, given, run, trusted=True)
    assert asked == ["openai:gpt-5-mini"]


def test_an_untrusted_run_starts_no_code_to_collect(run_folder, tmp_path, capsys):
    run = run_folder()
    (run / "config.yaml").write_text("environment: {name: 'os:getpid'}\n")
    assert main(["collect", str(run), "--out", str(tmp_path / "games.jsonl")]) == 2
    assert "'os:getpid' is code that a record names" in capsys.readouterr().err
