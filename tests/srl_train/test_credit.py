"""Every assignment against numbers worked by hand."""

import math
import subprocess
import sys

import pytest
from pydantic import TypeAdapter

from srl_extensions.research.schemes import role_of
from srl_train.credit import CREDIT_SCHEMES, AgentRoles, CreditConfig
from tests.srl_train.credit_games import alone, game

ONE = AgentRoles(("a",))
TWO = AgentRoles(("a", "b"))
TEAMS = AgentRoles(("r0", "r1", "b0", "b1"), {"r0": "red", "r1": "red", "b0": "blue", "b1": "blue"})
FLOOR = 1e-4
OWN = sorted(set(CREDIT_SCHEMES) - {"per_agent"})
PER_GROUP = sorted(set(OWN) - {"role", "round", "counterfactual"})


def credit_section(**settings):
    return TypeAdapter(CreditConfig).validate_python(settings)


def assignment(name, discount=1.0, scale="group", **settings):
    return CREDIT_SCHEMES.load(name)(credit_section(name=name, **settings), discount, scale)


def advantages(name, groups, seating=ONE, discount=1.0, **settings):
    return assignment(name, discount, **settings)(groups, seating, {})[0]


def led(seating):
    """Roles of the same agents, of which the first one leads."""
    first, *others = seating.agents
    return AgentRoles(seating.agents, seating.teams, {first: tuple(others)})


def test_agent_turn_by_hand():
    # discount .5: to go (1 + .5*2 = 2, 2), (0 + .5*4 = 2, 4), (5)
    group = alone([1, 2], [0, 4], [5])
    # turn 0: 2, 2, 5, mean 3; turn 1: 2, 4, mean 3
    [found] = advantages("agent_turn", [group], discount=0.5, scale="none")
    assert [own["a"] for own in found] == [[-1.0, -1.0], [-1.0, 1.0], [2.0]]
    # one deviation: sqrt((1 + 1 + 4 + 1 + 1) / (2 + 1)) = sqrt(8 / 3)
    [found] = advantages("agent_turn", [group], discount=0.5)
    scale = math.sqrt(8 / 3) + FLOOR
    assert found[1]["a"] == pytest.approx([-1 / scale, 1 / scale], rel=1e-12)
    assert found[2]["a"] == pytest.approx([2 / scale], rel=1e-12)


def test_small_late_differences_are_not_amplified():
    """Most games end in step 0 with rewards of 0 to 10; two continue, with a difference of 0.01."""
    group = alone([0], [10], [0], [10], [5, 1.00], [5, 1.01])
    [found] = advantages("agent_turn", [group])
    late = [own["a"][1] for own in found if len(own["a"]) > 1]
    assert late[1] == pytest.approx(-late[0]) and 0 < late[1] < 0.01


def test_team_joint_by_hand():
    group = [
        game({"r0": [1, 1], "r1": [4], "b0": [1], "b1": []}),  # red (2 + 4) / 2 = 3, blue 1
        game({"r0": [0, 0], "r1": [2], "b0": [2], "b1": [4]}),  # red 1, blue 3
    ]
    [first, second] = advantages("team_joint", [group], TEAMS, scale="none")[0]
    assert first == {"r0": [1.0, 1.0], "r1": [1.0], "b0": [-1.0], "b1": []}
    assert second == {"r0": [-1.0, -1.0], "r1": [-1.0], "b0": [1.0], "b1": [1.0]}
    [scaled, _] = advantages("team_joint", [group], TEAMS)[0]
    assert scaled["r1"] == pytest.approx([1 / (math.sqrt(2) + FLOOR)], rel=1e-12)


def test_leave_one_out_by_hand():
    # 1 - (2 + 6) / 2 = -3, 2 - 3.5 = -1.5, 6 - 1.5 = 4.5
    [found] = advantages("leave_one_out", [alone([1], [1, 1], [6])])
    assert [own["a"] for own in found] == [[-3.0], [-1.5, -1.5], [4.5]]


def test_difference_compares_gains_turn_by_turn():
    [found] = advantages("difference", [alone([1, 2], [3, 4], [8])], scale="none")
    assert [own["a"] for own in found] == [[-3.0, -1.0], [-1.0, 1.0], [4.0]]
    # squares 9 + 1 + 16 of turn 0 and 1 + 1 of turn 1, over 2 + 1
    [scaled] = advantages("difference", [alone([1, 2], [3, 4], [8])])
    assert scaled[2]["a"] == pytest.approx([4 / (math.sqrt(28 / 3) + FLOOR)], rel=1e-12)


def test_counterfactual_uses_gains_directly():
    group = alone([1, -2], [2], [0])
    [found] = advantages("counterfactual", [group], scale="none")
    assert [own["a"] for own in found] == [[1.0, -2.0], [2.0], [0.0]]
    [scaled] = advantages("counterfactual", [group])  # squares 1 + 4 + 4 + 0, of four turns
    assert scaled[1]["a"] == pytest.approx([2 / (1.5 + FLOOR)], rel=1e-12)
    [idle] = advantages("counterfactual", [alone([0], [0])])
    assert [own["a"] for own in idle] == [[0.0], [0.0]]


def test_round_compares_all_starts():
    groups = [alone([1], [2, 1]), alone([10], [10])]  # 1, 3, 10, 10 around 6; squares 66, over 3
    found = advantages("round", groups, scale="none")
    assert [[own["a"] for own in group] for group in found] == [[[-5], [-3, -3]], [[4], [4]]]
    scaled = advantages("round", groups)
    assert scaled[1][0]["a"] == pytest.approx([4 / (math.sqrt(22) + FLOOR)], rel=1e-12)


def test_role_by_hand():
    made = assignment("role", decay=0.75)
    # First round: b starts at the mean, 3. Scored 2 - 3; b = .75 * 3 + .25 * 2 = 2.75; scored
    # 4 - 2.75; b = .75 * 2.75 + .25 * 4 = 3.0625.
    found, state = made([alone([1, 1], [4])], ONE, {})
    assert [own["a"] for own in found[0]] == [[-1.0, -1.0], [1.25]]
    assert state == {"a": 3.0625}
    # The next round uses the average: 3 - 3.0625; b = .75 * 3.0625 + .25 * 3.
    found, state = made([alone([3])], ONE, state)
    assert found == [[{"a": [-0.0625]}]] and state == {"a": 3.046875}


def test_roles_are_teams_leaders_or_agents():
    for roles, expected in (
        (TEAMS, ["red", "red", "blue", "blue"]),
        (led(TEAMS), ["red", "red", "blue", "blue"]),
        (led(TWO), ["leader", "follower"]),
        (TWO, ["a", "b"]),
    ):
        assert [role_of(agent, roles) for agent in roles.agents] == expected


def test_agents_of_one_role_share_its_average():
    made = assignment("role", decay=0.5)
    group = [game({"r0": [1], "r1": [3], "b0": [0], "b1": []})]
    found, state = made([group], TEAMS, {"red": 4.0})
    # red: both against 4, then .5 * 4 + .5 * 2 = 3; blue is new and starts with its own mean, 0
    assert found == [[{"r0": [-3.0], "r1": [-1.0], "b0": [0.0], "b1": []}]]
    assert state == {"red": 3.0, "blue": 0.0}


def test_each_environment_has_its_baseline():
    """Returns around 100 in one and around 0 in the other: no answer is praised for its game."""
    groups = [
        alone(*own, environment=name)
        for name, own in {"rich": [[101], [99]], "poor": [[1], [-1]]}.items()
    ]
    found, state = assignment("role", decay=1.0)(groups, ONE, {})
    assert [[own["a"] for own in group] for group in found] == [[[1.0], [-1.0]], [[1.0], [-1.0]]]
    assert state == {"rich a": 100.0, "poor a": 0.0}


@pytest.mark.parametrize("name", PER_GROUP)
def test_equal_returns_give_exact_zeros(name):
    # .1 + .2 is not .3 to the bit, so every turn pays the same here.
    groups = [[game({"a": [0.1, 0.3], "b": [0.7]})] * 3]
    for one in advantages(name, groups, TWO)[0]:
        assert one == {"a": [0.0, 0.0], "b": [0.0]}


@pytest.mark.parametrize("name", OWN)
def test_agents_may_leave_early_or_never_act(name):
    groups = [
        [game({"a": [1, 2, 3], "b": [1]}), game({"a": [2], "b": []}), game({"a": [], "b": []})],
        [game({"a": [1], "b": [4, 4]}), game({"a": [0], "b": [1]}), game({"a": [0], "b": [1]})],
    ]
    found = advantages(name, groups, TWO)
    for group, own in zip(groups, found, strict=True):
        for one, given in zip(group, own, strict=True):
            assert list(given) == ["a", "b"]
            assert {s: len(turns) for s, turns in given.items()} == {
                agent: len(own.steps) for agent, own in one.items()
            }
            assert all(type(v) is float for turns in given.values() for v in turns)


@pytest.mark.parametrize("name", OWN)
def test_the_order_of_agents_does_not_matter(name):
    one = {"r0": [1, 2], "r1": [0.3, 4], "b0": [1, 1], "b1": [2, 0.1]}
    other = {"r0": [0, 1], "r1": [2, 2], "b0": [5, 1], "b1": [2, 2]}
    turned = [game(dict(reversed(own.items()))) for own in (one, other)]
    whole = advantages(name, [[game(one), game(other)]], TEAMS)
    assert advantages(name, [turned], TEAMS) == whole


def test_schemes_and_strategies_of_installed_packages_are_settings(tmp_path):
    package = tmp_path / "theirs-1.dist-info"
    package.mkdir()
    groups = (
        "[core_srl.credit_schemes]\nlast = a:b\n[core_srl.strategies]\nown = a:b\nselective = a:b"
    )
    (package / "entry_points.txt").write_text(groups)
    program = (
        f"import sys; sys.path.append({str(tmp_path)!r}); from srl_train import RunConfig;"
        "RunConfig(credit={'name': 'last'}, updates={'strategy': 'own'})"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
