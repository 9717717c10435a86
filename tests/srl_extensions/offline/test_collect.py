"""`srl collect`: players, filters and refusals."""

import pytest

from srl_agents.episode import read_jsonl, to_json
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy
from srl_envs import coop_compete_v0
from srl_envs.scenarios import scenario
from srl_extensions.judging.scenarios import play_scenario
from srl_extensions.offline.collect import build_policies, filtered, play_games, scripted_player
from srl_extensions.offline.data import parts_of
from srl_train.cli import main
from srl_train.errors import ConfigError

SEATS = ("agent_0", "agent_1")


def make_env():
    return coop_compete_v0.parallel_env(variant="pair", max_cycles=3)


def classic(name):
    return scripted_player(name, make_env())


@pytest.fixture
def mixed_games():
    policies = {"agent_0": classic("always_compete"), "agent_1": classic("uniform")}
    return play_many(make_env, policies, [0] * 4 + [1] * 4, policy_seeds=range(8))


def test_episodes_are_grouped_and_reproducible():
    policies = dict.fromkeys(SEATS, classic("uniform"))
    games = play_games(make_env, policies, 6, 3, group_size=3)
    assert [e.seed for e in games] == [games[0].seed] * 3 + [games[3].seed] * 3
    assert games[0].seed != games[3].seed
    assert len({tuple(e.returns().items()) for e in games}) > 2
    same = play_games(make_env, policies, 6, 3, group_size=3)
    assert list(map(to_json, games)) == list(map(to_json, same))
    assert games[0].seed != play_games(make_env, policies, 6, 3, stage=1, group_size=3)[0].seed


def test_top_fraction_keeps_the_best_returns(mixed_games):
    kept = filtered(mixed_games, top_fraction=0.25)
    found = {(kept[i].seed, seat, kept[i].returns()[seat]) for i, seat in parts_of(kept)}
    assert found == {
        (seed, s, max(e.returns()[s] for e in mixed_games if e.seed == seed))
        for seed in (0, 1)
        for s in SEATS
    }
    good = filtered(mixed_games, min_return=2.0)
    assert {e.seed for e in good} == {
        e.seed for e in mixed_games if max(e.returns().values()) >= 2.0
    }


def run(*words):
    return main(["collect", *map(str, words)])


GAME = ["--environment", "coop_compete_pair_v0", "--set", "environment.options.max_cycles=3"]


def test_scripted_episodes_contain_text_answers(tmp_path, capsys):
    out = tmp_path / "new" / "games.jsonl"
    players = ["--players", "always_cooperate", "agent_1=tit_for_tat"]
    assert run(*GAME, *players, "--episodes", 4, "--seed", 1, "--out", out) == 0
    games = list(read_jsonl(out))
    assert len(games) == 4
    assert games[0].seats == {"agent_0": "always_cooperate", "agent_1": "tit_for_tat"}
    assert {s.decision.text for e in games for turn in e.turns for s in turn} == {"cooperate"}
    said = capsys.readouterr().out
    assert "4 of 4 episodes (0 failed) with 24 answers, 0.0% not parsed" in said
    again = tmp_path / "again.jsonl"
    run(*GAME, *players, "--episodes", 4, "--seed", 1, "--out", again)
    assert again.read_bytes() == out.read_bytes()


def test_models_of_a_run_play_its_agents(tmp_path, short_run, tiny_folder, capsys):
    from srl_train.trainer import Trainer

    folder = tmp_path / "run"
    Trainer(short_run(rounds=1), folder).fit()
    out = tmp_path / "games.jsonl"
    assert run(folder, "--episodes", 2, "--out", out) == 0
    [game, _] = read_jsonl(out)
    models = {seat: f"{folder}/models/model_{i}" for i, seat in enumerate(SEATS)}
    assert game.seats == models
    assert all(len(game.steps_of(seat)) == 2 for seat in SEATS)  # its own max_cycles

    def seated(*who):
        config = short_run()
        return [
            p.name
            for p in build_policies(config, make_env, dict(zip(SEATS, who, strict=True))).values()
        ]

    assert seated(str(folder), str(folder)) == list(models.values())
    assert seated(f"{folder}:model_1", "uniform") == [models["agent_1"], "uniform"]
    with pytest.raises(ConfigError, match=r"has no model 'model_7', only model_0, model_1"):
        seated(f"{folder}:model_7", "uniform")
    # Whoever is not named stays who the configuration says, one object for equal models.
    policies = build_policies(short_run(), make_env, {"agent_0": "always_cooperate"})
    assert policies["agent_1"].name == tiny_folder
    both = build_policies(short_run(), make_env, {})
    assert both["agent_0"] is both["agent_1"]


@pytest.mark.parametrize(
    "words, says",
    [
        ([], "give a configuration, a run's folder, or --environment"),
        (["--environment", "coop_compete_v0"], "--players WHO"),
        (
            [*GAME, "--players", "agent_9=uniform"],
            "--players agent_9=uniform: agent must be one of",
        ),
        ([*GAME, "--players", "uniform", "--episodes", "0"], "--episodes must be from 1"),
        ([*GAME, "--players", "uniform", "--min-return", "nan"], "--min-return must be from -inf"),
        ([*GAME, "--players", "uniform", "--group-size", "5"], "a multiple of --group-size"),
        ([*GAME, "--players", "uniform", "--top-fraction", "2"], "--top-fraction is 2.0"),
        (
            [*GAME, "--players", "uniform", "tiny"],
            "--players: must be one player for all agents, got uniform, tiny",
        ),
    ],
)
def test_collect_errors_are_one_line(words, says, tmp_path, capsys):
    assert run(*words, "--out", tmp_path / "x.jsonl") == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert not (tmp_path / "x.jsonl").exists()


def test_held_out_policies_are_refused_as_data():
    with pytest.raises(ConfigError, match=r"grim_trigger is kept for evaluation.*tit_for_tat"):
        scripted_player("grim_trigger", make_env())


def test_collected_episodes_differ_from_evaluation_episodes():
    test = scenario("social_trading_v0.one_among_honest")
    policies = dict.fromkeys(test.make().possible_agents, classic_policy("uniform", test.make()))
    collected = play_games(test.make, policies, 16, 0)
    evaluated = play_scenario(test, classic_policy("uniform", test.make()), 16, 0)
    assert not {one.seed for one in collected} & {one.seed for one in evaluated}
