"""Debates: speeches, observations, rewards and topics."""

import numpy as np
import pytest

from srl_envs.errors import EnvConfigError
from srl_envs.tasks.debate import (
    HISTORY_LENGTH,
    SHIPPED,
    SPEECH_LENGTH,
    Verdict,
    load_topics,
    parallel_env,
)
from srl_envs.text import TEXT_LENGTH

PRO, CON = "pro_0", "con_0"


class Fixed:
    """Judge that returns a given verdict and records the debates."""

    def __init__(self, pro=0.75, con=0.25):
        self.verdict, self.asked = Verdict(pro, con, {"kind": "fixed"}), []

    def judge(self, debate):
        self.asked.append(debate)
        return self.verdict


def run(env, *turns):
    """Play turns of (pro, con), and return the last step."""
    env.reset(seed=0)
    for words in turns:
        spoken = dict(zip((PRO, CON), words, strict=True))
        outcome = env.step({agent: spoken[agent] for agent in env.agents})
    return outcome


def test_observations_contain_the_speeches_of_earlier_rounds():
    env = parallel_env(topics=["Cats are better."], debate_rounds=2)
    seen, _ = env.reset(seed=0)
    assert seen[PRO]["text"] == "Motion: Cats are better.\nRound 1 of 2. Speak for the motion."
    assert seen[CON]["text"].endswith("Speak against the motion.")
    seen, rewards, *_ = env.step({PRO: "Cats purr.", CON: "Dogs\nbark.\x00"})
    assert seen[PRO]["text"] == (
        "Motion: Cats are better.\nPRO (1): Cats purr.\nCON (1): Dogs bark.\n"
        "Round 2 of 2. Speak for the motion."
    )
    assert set(rewards.values()) == {0.0}
    _, _, terminations, truncations, infos = env.step({PRO: "Yes.", CON: "No."})
    assert terminations == {PRO: True, CON: True} and not any(truncations.values())
    assert infos[PRO]["side"] == "pro" and infos[PRO]["words"] == 1


@pytest.mark.parametrize(
    ("scoring", "pro", "con"), [("zero_sum", 0.5, -0.5), ("quality", 0.75, 0.25)]
)
def test_rewards_by_scoring(scoring, pro, con):
    judge = f"{__name__}:Fixed" if scoring == "quality" else Fixed()
    env = parallel_env(judge=judge, scoring=scoring, max_cycles=1)
    _, rewards, _, _, infos = run(env, ("a", "b"))
    assert rewards == {PRO: pro, CON: con}
    assert infos[PRO]["winner"] == "pro" and infos[PRO]["judge_kind"] == "fixed"
    assert infos[PRO]["success"] and not infos[CON]["success"]


def test_unreadable_text_is_an_empty_speech():
    _, _, _, _, infos = run(parallel_env(debate_rounds=1), ("", "Something."))
    assert infos[PRO]["unreadable"] == "the answer was empty" and infos[PRO]["score"] == 0.0
    assert infos[CON]["unreadable"] is None


def test_speeches_and_observations_are_truncated():
    env = parallel_env(debate_rounds=12)
    env.reset(seed=0)
    for number in range(11):
        seen, *_ = env.step({PRO: f"p{number} " + "x" * 5000, CON: f"c{number} " + "y" * 5000})
    assert max(len(speech.text) for speech in env.debate.speeches) == SPEECH_LENGTH
    text = seen[PRO]["text"]
    assert HISTORY_LENGTH - SPEECH_LENGTH - 20 < len(text) < HISTORY_LENGTH + 500 <= TEXT_LENGTH
    assert "c10 " in text and "p0 " not in text


@pytest.mark.parametrize(("history", "told"), [(0, []), (1, ["p2"]), (None, ["p0", "p1", "p2"])])
def test_history_limits_the_speeches_in_the_observation(history, told):
    env = parallel_env(debate_rounds=5, history=history)
    env.reset(seed=0)
    for number in range(3):
        seen, *_ = env.step({PRO: f"p{number}", CON: "c"})
    assert [f"p{n}" for n in range(3) if f"p{n}" in seen[CON]["text"]] == told


def test_truncated_debate_is_judged_on_its_speeches():
    env = parallel_env(judge=Fixed(), debate_rounds=5, max_cycles=2)
    _, rewards, terminations, truncations, _ = run(env, ("a", "b"), ("c", "d"))
    assert rewards == {PRO: 0.5, CON: -0.5}
    assert all(truncations.values()) and not any(terminations.values())


def test_topics_from_lists_files_and_splits(tmp_path):
    assert parallel_env(topics=["One.", " One. ", "Two."]).topics == ("One.", "Two.")
    path = tmp_path / "topics.jsonl"
    path.write_text('{"motion": "One."}\n"Two."\n\n{"motion": "Three."}\n')
    assert parallel_env(topics=path).topics == ("One.", "Two.", "Three.")
    shipped = load_topics(SHIPPED)
    train, test = (set(parallel_env(split=split).topics) for split in ("train", "test"))
    assert len(shipped) == 40 and train | test == set(shipped) and not train & test
    assert len(test) >= 4


def test_reset_option_sets_the_motion():
    env = parallel_env()
    _, infos = env.reset(seed=0, options={"motion": "Tea is better than coffee."})
    assert infos[PRO]["motion"] == "Tea is better than coffee."


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scoring": "applause"}, "scoring must be one of"),
        ({"judge": "nobody"}, "'module:function'"),
        ({"judge": "no_such_module:make"}, "no_such_module"),
        ({"judge": 3}, "method judge"),
        ({"topics": []}, "topics"),
        ({"topics": [3]}, "motion must be a text"),
    ],
)
def test_wrong_arguments(options, said):
    with pytest.raises(EnvConfigError, match=said):
        parallel_env(**options)


def test_sample_answers_are_valid_speeches():
    env = parallel_env()
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for agent in env.agents:
        samples = env.sample_answers(agent, rng, 64)
        assert 3 <= len(set(samples)) == len(samples) <= 64
        assert all(env.text_view.parse(agent, text) == text for text in samples)
