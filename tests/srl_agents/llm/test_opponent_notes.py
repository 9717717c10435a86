"""The line on the others: counts by hand, the forecast of the partner model, public facts only."""

import numpy as np
import pytest

from srl_agents.llm.opponent_notes import expected, notes_for
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play
from srl_agents.scripted.memory_one import TitForTat
from srl_envs import coop_compete_v0, maze_v0
from srl_envs.games import team_battle as team_battle_v0
from tests.fakes import ScriptedBackend

NOTES = notes_for(coop_compete_v0.parallel_env())


def test_counts_by_hand():
    # Replies to the round before: after (1, .) came 1, 0; after (0, .) came 1.
    history = ((1, 1), (0, 1), (1, 1), (1, 0))
    assert NOTES.line(history).startswith(
        "Others cooperating so far: 3 of 4; after you cooperate: 1 of 2; after you compete: 1 of 1;"
    )
    assert NOTES.line(((0, 0),)).startswith("Others cooperating so far: 0 of 1; chance next: ")


def test_the_forecast_by_hand():
    # One round, (1, 1). Stationary: (1 + .5) / 2 = .75. Reactive: nothing seen after (1, 1): .5.
    # Both foretold that round alike, so each counts half.
    assert expected(((1, 1),)) == pytest.approx(0.625)
    # Seen (1, 1), (1, 1): stationary .5 * .75 = .375 likely and says (2 + .5) / 3; reactive had
    # .5 * .5 = .25 and says (1 + .5) / 2.
    share = 0.375 / (0.375 + 0.25)
    assert expected(((1, 1), (1, 1))) == pytest.approx(share * 2.5 / 3 + (1 - share) * 0.75)


def test_the_forecast_learns_what_kind_of_partner_it_is():
    own = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1]
    copies = tuple(zip(own, [1, *own[:-1]], strict=True))
    assert expected(copies) > 0.75  # the last own action was 1
    assert expected((*copies, (0, 1))) < 0.35
    assert expected(((1, 0), (0, 0)) * 5) < 0.1


def game(notes, partner, answers):
    backend = ScriptedBackend(answers)
    env = coop_compete_v0.parallel_env(variant="pair", max_cycles=len(answers))
    policy = TextPolicy(backend, env.text_view, notes=notes)
    episode = play(env, {"agent_0": policy, "agent_1": partner}, 0)
    return backend, episode


def test_the_line_ends_the_situation_and_stays_in_the_conversation():
    backend, _ = game(NOTES, TitForTat(), ["compete", "cooperate", "compete"])
    told = backend.heard(2).split("<|im_start|>user\n")[1:]
    assert "so far" not in told[0]
    for turn, words in ((1, "1 of 1; chance next: 62%."), (2, "1 of 2; after you compete: 0 of 1")):
        situation, line = told[turn].split("<|im_end|>")[0].split("\n")
        assert situation.startswith(f"Round {turn + 1} of 3. You chose")
        assert line.startswith(f"Others cooperating so far: {words}")


def test_in_a_game_of_teams_the_others_are_the_rivals():
    fields = team_battle_v0.OBSERVATION_FIELDS
    seen = np.zeros(len(fields))
    seen[fields.index("own_cooperated")] = seen[fields.index("own_team_cooperated")] = 1
    assert notes_for(team_battle_v0.parallel_env()).after((), seen) == ((1, 0),)


def test_games_that_do_not_show_the_others_are_refused():
    with pytest.raises(ValueError, match=r"off maze_v0's observations, only off .*coop_compete_v0"):
        notes_for(maze_v0.parallel_env())
