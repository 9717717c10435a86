"""play and play_many where something fails: what it spoils, and what is closed all the same."""

from dataclasses import replace

import pytest

from srl_agents.episode import from_json, to_json
from srl_agents.errors import BackendError
from srl_agents.rollout import play, play_many
from tests.srl_agents.rollout.test_rollout import Ledger, Scribe


def games(*envs):
    waiting = iter(envs)
    return lambda: next(waiting)


def test_a_failing_environment_spoils_its_own_episode_only():
    seats = {"a": Scribe("p"), "b": Scribe("q")}
    make = games(Ledger(), Ledger(breaks_at=1), Ledger())
    whole = [play(Ledger(), seats, seed) for seed in (1, 2, 3)]
    episodes = play_many(make, seats, [1, 2, 3])
    assert [episodes[0], episodes[2]] == [whole[0], whole[2]]
    assert episodes[1] == replace(
        whole[1], turns=whole[1].turns[:1], ends={}, failure="EnvError: it broke"
    )


def test_an_environment_that_fails_in_its_reset_spoils_its_own_episode_only():
    seats = {"a": Scribe("p"), "b": Scribe("q")}
    whole = [play(Ledger(), seats, seed) for seed in (1, 2, 3)]
    make = games(Ledger(), Ledger(breaks_in_reset=True), Ledger())
    first, spoilt, last = play_many(make, seats, [1, 2, 3], reset_options=[{"level": 4}] * 3)
    assert [first.turns, last.turns] == [whole[0].turns, whole[2].turns]
    assert spoilt.failure == "EnvError: it did not start" and spoilt.turns == ()
    assert (spoilt.seed, spoilt.reset_options) == (2, {"level": 4})
    assert spoilt.seats == {"a": "p", "b": "q"}
    assert from_json(to_json(spoilt)) == spoilt


def test_a_backend_that_fails_at_a_games_start_spoils_that_game_only():
    class Late(Scribe):
        def start(self, seed):
            self.started = getattr(self, "started", 0) + 1
            if self.started == 2:
                raise BackendError("no connection")
            return super().start(seed)

    episodes = play_many(Ledger, {"a": Late("p"), "b": Scribe("q")}, [1, 2, 3])
    assert [one.failure for one in episodes] == [None, "BackendError: no connection", None]
    assert [len(one.turns) for one in episodes] == [2, 0, 2]


def test_every_environment_that_was_made_is_closed_once():
    seats = {"a": Scribe("p"), "b": Scribe("q")}
    made = [Ledger(), Ledger(breaks_at=1), Ledger(breaks_in_reset=True)]
    play_many(games(*made), seats, [1, 2, 3])
    assert [env.closed for env in made] == [1, 1, 1]


def test_environments_are_closed_where_a_game_ends_in_an_error():
    class Faulty(Scribe):
        def act(self, seen, states):
            raise KeyError("a fault of ours")

    made = [Ledger(), Ledger()]
    with pytest.raises(KeyError):
        play_many(games(*made), dict.fromkeys("ab", Faulty("p")), [1, 2])
    assert [env.closed for env in made] == [1, 0], "the second was not made any more"
    with pytest.raises(ValueError, match="no policy"):
        play_many(games(*made), {"a": Scribe("p")}, [1])
    assert made[0].closed == 2


def test_a_failing_backend_spoils_the_episodes_it_was_asked_for():
    flaky = Scribe("flaky", fails_at_call=2)
    seats = {"a": flaky, "b": Scribe("steady")}
    make = games(Ledger({"a": 1, "b": 1}), Ledger(), Ledger({"a": 1, "b": 3}))
    over, struck, after = play_many(make, seats, [1, 2, 3])
    assert over.failure is None and len(over.turns) == 1
    assert struck.failure == "BackendError: no answer" and len(struck.turns) == 1
    assert after.failure is None and len(after.turns) == 3
    assert len(flaky.calls) == 4, "a spoilt episode is not asked about again"


def test_other_errors_are_faults_and_not_hidden():
    class Faulty(Scribe):
        def act(self, seen, states):
            raise KeyError("a fault of ours")

    with pytest.raises(KeyError):
        play(Ledger(), dict.fromkeys("ab", Faulty("p")), 1)
