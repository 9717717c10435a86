"""Who does as told is told from who is deaf, and from who follows the clock."""

import pytest

from srl_agents.evaluation.interactions import interactions
from srl_envs.games.cheap_talk import spoken
from tests.srl_agents.evaluation.interactions.known_players import (
    SEEDS,
    Does,
    deaf,
    edges,
    played,
    unknown,
)


def speaking(vocabulary):
    def choose(seen, rng):
        said = int(rng.integers(2))
        return 0, vocabulary(said, rng)

    return choose


def following(seen, rng):
    words = dict(spoken(seen.observation)).get("agent_0", "")
    return int("yes" in words.casefold()), None


VOCABULARIES = {
    "two words": lambda said, rng: ("no", "yes")[said],
    "free text": lambda said, rng: (
        f"{('no', 'Yes!')[said]} {' '.join(f'w{n}' for n in rng.integers(30, size=4))}"
    ),
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_one_who_does_as_told_listens_and_the_deaf_one_does_not(seed, vocabulary):
    players = [("speaker", Does(speaking(VOCABULARIES[vocabulary]))),
               ("follower", Does(following)), ("deaf", Does(deaf))]  # fmt: skip
    games = played("social_trading_v0", players, seed, 12, num_agents=3, max_cycles=8,
                   messages=True, obs_mode="llm")  # fmt: skip
    got = edges(interactions(unknown(games)), "listened")
    assert set(got) == {("speaker", "follower"), ("speaker", "deaf")}
    follower, deaf_one = got["speaker", "follower"], got["speaker", "deaf"]
    assert follower.sure and follower.interval[0] > 0.4 and follower.value <= 1.0
    assert not deaf_one.sure and abs(deaf_one.value) < 0.1


def test_who_both_follow_the_clock_do_not_listen_to_each_other():
    def clock(seen):
        return round(8 * float(seen.observation["observation"][0])) % 2

    def telling(seen, rng):
        return 0, ("no", "yes")[clock(seen)]

    players = [("a", Does(telling)), ("b", Does(lambda seen, rng: (clock(seen), None)))]
    games = played("social_negotiation_v0", players, 0, 10, num_agents=2, max_cycles=8,
                   messages=True, obs_mode="llm", offers="simultaneous")  # fmt: skip
    edge = interactions(unknown(games)).graph("listened").edge("a", "b")
    assert edge.value == pytest.approx(0.0, abs=1e-9)


def test_messages_that_are_all_different_tell_nothing():
    numbers = iter(range(10_000))
    speaker = Does(lambda seen, rng: (0, f"m{next(numbers)}"))
    games = played("social_negotiation_v0", [("a", speaker), ("b", Does(deaf))], 0, 10,
                   num_agents=2, max_cycles=8, messages=True, obs_mode="llm",
                   offers="simultaneous")  # fmt: skip
    edge = interactions(unknown(games)).graph("listened").edge("a", "b")
    assert not edge.sure
