"""A language model as judge: asked twice with the sides swapped, read strictly, averaged."""

import pytest

from srl_agents.llm.judge import ASKED, RULES, LLMJudge, parse_verdict
from srl_envs.tasks.debate import CON, PRO, TIE, Debate, Speech, parallel_env
from tests.fakes import ScriptedBackend

DEBATE = Debate("Tea is best.", (Speech(PRO, 1, "It warms."), Speech(CON, 1, "Coffee wakes.")))


def test_both_orders_are_judged():
    backend = ScriptedBackend(["Verdict: A", "Verdict: B"])
    verdict = LLMJudge(backend).judge(DEBATE)
    first, second = backend.heard(0), backend.heard(1)
    assert RULES in first and ASKED in second
    assert "A speaks for the motion, B against it.\nA (1): It warms.\nB (1): Coffee wakes." in first
    assert (
        "B speaks for the motion, A against it.\nA (1): Coffee wakes.\nB (1): It warms." in second
    )
    assert (verdict.pro, verdict.con, verdict.winner) == (1.0, 0.0, PRO)
    assert verdict.info == {"orders": [PRO, PRO], "agreed": True, "unreadable": 0}


@pytest.mark.parametrize(
    ("answers", "pro", "agreed", "unreadable"),
    [
        (("Verdict: A", "Verdict: A"), 0.5, False, 0),  # always the first speaker: a tie
        (("Verdict: B", "Verdict: A"), 0.0, True, 0),
        (("Verdict: tie", "Verdict: tie"), 0.5, True, 0),
        (("Verdict: A", "Verdict: tie"), 0.75, False, 0),
        (("Verdict: A", "no idea"), 0.75, False, 1),
        (("", "no idea"), 0.5, False, 2),
    ],
)
def test_verdicts_are_averaged(answers, pro, agreed, unreadable):
    verdict = LLMJudge(ScriptedBackend(answers)).judge(DEBATE)
    assert (verdict.pro, verdict.con) == (pro, 1 - pro)
    assert (verdict.info["agreed"], verdict.info["unreadable"]) == (agreed, unreadable)


def test_seeds_depend_only_on_the_debate():
    other = Debate("Rain is good.", DEBATE.speeches)

    def seeds(*debates, **settings):
        backend = ScriptedBackend(lambda request: "Verdict: A")
        judge = LLMJudge(backend, **settings)
        for debate in debates:
            judge.judge(debate)
        return [request.seed for request in backend.requests]

    assert seeds(other, DEBATE)[2:] == seeds(DEBATE)
    assert len({*seeds(other, DEBATE), *seeds(DEBATE, seed=1)}) == 6


@pytest.mark.parametrize(
    ("answer", "side"),
    [
        ("Verdict: A", PRO),
        ("A has examples.\n**Verdict:** *b*", CON),
        ("verdict: Tie.", TIE),
        ("Verdict: A\nor rather B", None),
        ("The verdict: A", None),
        ("Verdict: AB", None),
        ("Verdict: A or B", None),
        ("A", None),
        ("", None),
    ],
)
def test_the_verdict_is_parsed_from_the_last_line(answer, side):
    assert parse_verdict(answer, PRO) == side


def test_the_environment_uses_the_judge():
    judge = LLMJudge(ScriptedBackend(["Verdict: A", "Verdict: B"]))
    env = parallel_env(judge=judge, debate_rounds=1)
    env.reset(seed=0)
    _, rewards, _, _, infos = env.step({"pro_0": "a", "con_0": "b"})
    assert rewards == {"pro_0": 1.0, "con_0": -1.0}
    assert infos["con_0"]["judge_agreed"] is True and infos["con_0"]["judge_unreadable"] == 0
