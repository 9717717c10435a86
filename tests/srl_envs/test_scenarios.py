"""Scenarios: every agent has a role, held-out parts are marked, and names are found."""

import inspect
import re
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test, parallel_seed_test

from srl_envs import registry, scenarios
from srl_envs.errors import EnvConfigError

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "environments" / "scenarios.md").read_text(encoding="utf-8")
GAMES = (
    "coop_compete_v0", "coop_compete_pair_v0", "team_battle_v0", "staged_v0", "bandit_v0",
    "maze_v0", "maze_race_v0", "maze_own_v0", "maze_meet_v0", "social_trading_v0",
    "social_negotiation_v0", "math_v0", "code_v0", "tool_use_v0", "debate_v0",
)  # fmt: skip


@pytest.mark.parametrize("game", GAMES)
def test_every_game_has_four_and_some_are_held_out(game):
    assert len(scenarios.names(game)) >= 4
    holdout = scenarios.names(game, holdout=True)
    assert holdout and set(holdout) < set(scenarios.names(game))
    assert {*holdout, *scenarios.names(game, holdout=False)} == set(scenarios.names(game))


@pytest.mark.parametrize("name", scenarios.names())
def test_every_agent_is_focal_or_background(name):
    found = scenarios.scenario(name)
    assert found.name == name and name.startswith(f"{found.environment}.")
    assert len(set(found.focal)) == len(found.focal) > 0
    assert set(found.held_out_partners) <= set("|".join(found.background.values()).split("|"))
    assert set(found.held_out_options) <= set(found.options)


@pytest.mark.parametrize("name", scenarios.names())
def test_focal_agents_play_alone_among_new_seeded_partners(name):
    found = scenarios.scenario(name)
    with closing(found.parallel_env()) as env:
        assert env.possible_agents == [a for a in found.make().possible_agents if a in found.focal]
    if not found.background:
        return
    parallel_api_test(found.parallel_env(), num_cycles=20)
    parallel_seed_test(found.parallel_env, num_cycles=20)
    if len(found.focal) == 1:
        check_env(found.gym_env(), skip_render_check=True)
    else:
        with pytest.raises(EnvConfigError, match="num_agents"):
            found.gym_env()


@pytest.mark.parametrize("name", [n for n in scenarios.names() if n.startswith("maze")])
def test_held_out_maze_scenarios_use_the_test_split(name):
    found = scenarios.scenario(name)
    env = found.make()
    splits = set()
    for seed in range(8):
        env.reset(seed=seed)
        splits.add(env.level.split)
    assert splits == ({"test"} if found.held_out_options else {"train"})


TASKS = [n for n in scenarios.names() if n.startswith(("math", "code", "tool_use"))]


@pytest.mark.parametrize("name", TASKS)
def test_held_out_task_scenarios_use_the_test_split(name):
    found = scenarios.scenario(name)
    env = found.make()
    problems = {}
    for seed in range(12):
        env.reset(seed=seed)
        problem = env.attempt("agent_0").problem
        problems[problem.identity] = problem
    env.close()
    splits = {problem.split for problem in problems.values()}
    assert splits == ({"test"} if found.held_out_options else {"train"})
    assert len(problems) > 1, "there is more than one to ask"
    assert env.max_cycles == found.options.get("max_cycles", env.task.attempts)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("coop_compete_pair_v0.pavlow", r"did you mean 'coop_compete_pair_v0\.pavlov'"),
        ("maze_v0.nothing", r"maze_v0\.small, maze_v0\.large"),
        ("chess", r"there are: coop_compete_v0\.\*"),
        (["chess"], r"there is no scenario \['chess'\]"),
    ],
)
def test_unknown_name_error_contains_the_nearest(name, says):
    with pytest.raises(EnvConfigError, match=says) as error:
        scenarios.scenario(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("focal", [(), ("agent_0", "agent_1"), ("fisher_9",)])
def test_each_agent_must_be_focal_or_background(focal):
    says = "missing: .'agent_0'.*unknown: .'fisher_9'|focal must name agents without"
    with pytest.raises(EnvConfigError, match=says):
        scenarios.Scenario("own", "coop_compete_pair_v0", "", focal, {"agent_1": "bully"}).gym_env()


def test_held_out_levels_are_found_in_every_entry_of_a_game():
    kept = scenarios.kept_for_evaluation
    arms = scenarios.scenario("bandit_v0.right_improves_late").options
    assert kept("bandit_v0", arms).name == "bandit_v0.right_improves_late"
    assert kept("bandit_v0", {**arms, "num_agents": 3, "max_cycles": 7}) is not None
    assert kept("bandit_v0", {**arms, "arm0_prob": 0.7}) is None
    assert kept("maze_race_v0", {"split": "test"}) is not None
    assert kept("maze_v0", {"split": "train"}) is None
    for task in ("math_v0", "code_v0", "tool_use_v0", "debate_v0"):
        assert kept(task, {"split": "test", "max_cycles": 2}).environment == task
        assert kept(task, {"split": "any"}) is not None, "which has those of the test split too"
        assert kept(task, {"split": "train"}) is None
    assert kept("math_v0", {"split": "any", "path": "mine.jsonl"}) is None
    assert kept("debate_v0", {"split": "any", "topics": ["This house is mine."]}) is None
    assert kept("my_games:bandit", arms) is None
    assert all(kept(name, {}) is None for name in registry.names())


KEPT = [n for n in scenarios.names(holdout=True) if scenarios.scenario(n).held_out_options]


@pytest.mark.parametrize("name", KEPT)
def test_held_out_levels_are_found_under_every_name(name):
    found = scenarios.scenario(name)
    module = registry.entry(found.environment).module
    takes = inspect.signature(import_module(module).parallel_env).parameters
    levels = {option: found.options[option] for option in found.held_out_options}
    unlike = {option: kept for option, kept in levels.items() if kept != takes[option].default}
    for written in (found.environment, f"{module}:parallel_env", f"{module}:whatever_makes_it"):
        for options in (levels, unlike):
            assert scenarios.kept_for_evaluation(written, options) is not None
        assert scenarios.kept_for_evaluation(written, {}) is None


def row(found):
    """Return the cells of a scenario in docs/environments/scenarios.md."""
    agents = {}
    for agent, policy in found.background.items():
        agents.setdefault(policy, []).append(agent)
    policies = {p: "/".join(f"`{one}`" for one in p.split("|")) for p in agents}
    listed = [f"{', '.join(agents[p])}: {named}" for p, named in policies.items()]
    alike = found.focal == ("agent_0",) and len(agents) == 1
    background = "; ".join(policies.values() if alike else listed)
    held_out = (*found.held_out_partners, *found.held_out_options)
    return (found.name, background, ", ".join(f"`{name}`" for name in held_out))


def test_docs_list_all_scenarios():
    lines = re.findall(r"^`(\w+\.\w+)` \|(.*)$", PAGE, re.MULTILINE)
    written = [(name, *(cell.strip() for cell in rest.split("|"))) for name, rest in lines]
    assert written == [row(scenarios.scenario(name)) for name in scenarios.names()]
