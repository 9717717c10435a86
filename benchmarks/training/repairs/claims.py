"""The claim on what learners hold to: every property beside what a plain way makes of it."""

from __future__ import annotations

from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.repairs import compared, turns

PROPERTY = ("what", "case")


def measure(request: Request) -> Result:
    """One row per seed and property."""
    return Result([*turns.measure(request), *compared.measure(request.seeds)])


MARGIN = 0.1
"""Difference in push that counts as none: at most 7 % of agent_turn's own push."""


LEARNER_REPAIRS = Claim(
    measure,
    tables=[
        Table(
            {
                "what": "{what}",
                "of it": "{case}",
                "found": "{found.interval:.3f}",
                "the plain way": "{plain.interval:.3f}",
            },
            over_seeds=PROPERTY,
        )
    ],
    targets=[
        Target(
            "under a sample budget below one round every agent is trained on equally many samples",
            "found", "==", 1.0, "{:g}", {"what": turns.BUDGET},
        ),
        Target(
            "where an agent is never asked, its groups with such a game are left out and no more, "
            "and all losses are finite",
            "beyond", "==", 0, "{}", {"what": turns.NEVER_ASKED},
        ),
        Target("no forced token is trained on", "found", "==", 0.0, "{:g}",
               {"case": turns.FORCED}),
        Target("the entropy told is within 10 % of that of the real choices", "off", "<", 0.1,
               "{:.1%}", {"case": turns.ENTROPY}),
        Target("federated weighs four equal models alike by default", "found", "<", 0.2501,
               "{:.4f}", {"default": True}),
        Target("selective lets no equal model wait for more than 6 rounds", "found", "<=", 6,
               "{:g}", {"what": compared.WAITS}),
        Target("credit by role praises or blames no game as a whole: mean advantages stay below "
               ".15 of the deviation", "off", "<", 0.15, "{:.3f}", {"what": compared.BY_ROLE}),
        *[
            Target(f"opponent_model pushes as agent_turn does against {name} within {MARGIN:g} "
                   "(two one-sided t tests at 5 %)", "found.equal_within", "<=", MARGIN,
                   "within {:.3f}", {"what": compared.PUSH, "case": name}, PROPERTY)
            for name in compared.PARTNERS
        ],
        Target("of the games from every start a quarter is kept", "found", "==", compared.SHARE,
               "{:g}", {"what": compared.BEST}),
    ],
    legend="Seeds {seeds}: mean, and the 95 % interval by Student's t where seeds differ. The "
    "plain way, on the same games: forced tokens counted in; weights softmax(mean return / .1), "
    "and the two best mean returns; one baseline for both games; ranks over all starts. Of games "
    "left out it is those that have to be, of pushes it is agent_turn's own.",
    seeds=(0, 1, 2, 3, 4),
)  # fmt: skip
