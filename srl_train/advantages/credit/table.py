"""Registry of credit assignments, as the configuration names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from srl_train.advantages.credit.advantage_alignment import advantage_alignment
from srl_train.advantages.credit.agent_turn import agent_turn
from srl_train.advantages.credit.assignment import Assignment
from srl_train.advantages.credit.hierarchical import hierarchical
from srl_train.advantages.credit.leave_one_out import leave_one_out
from srl_train.advantages.credit.opponent_model import opponent_model
from srl_train.advantages.credit.replayed import counterfactual, difference
from srl_train.advantages.credit.role import role
from srl_train.advantages.credit.round import whole_round
from srl_train.advantages.credit.team_joint import team_joint

ASSIGNMENTS: Mapping[str, Callable[[Any, float], Assignment | None]] = {
    "per_agent": lambda credit, discount: None,
    "agent_turn": lambda credit, discount: agent_turn(discount, credit.scale),
    "team_joint": lambda credit, discount: team_joint(discount, credit.scale),
    "round": lambda credit, discount: whole_round(discount, credit.scale),
    "role": lambda credit, discount: role(discount, credit.decay),
    "hierarchical": lambda credit, discount: hierarchical(discount, credit.scale),
    "leave_one_out": lambda credit, discount: leave_one_out(discount),
    "advantage_alignment": lambda credit, discount: advantage_alignment(
        discount, credit.scale, credit.alignment
    ),
    "difference": lambda credit, discount: difference(credit.scale),
    "counterfactual": lambda credit, discount: counterfactual(credit.scale),
    "opponent_model": lambda credit, discount: opponent_model(discount, credit.scale),
}
"""Name -> (the `credit` section of a configuration, discount per turn) -> assignment.

None leaves advantages to the learner: under `per_agent` all turns of an agent share the advantage
of its episode return in its group (GRPO, Shao et al. 2024, eq. 4.1.2), which TRL computes as
`grpo.scale_rewards` says, and PPO has a critic.
"""
REPLAYED = frozenset({"difference", "counterfactual"})
"""Those that read what came of games played again (srl_train.advantages.replays)."""
