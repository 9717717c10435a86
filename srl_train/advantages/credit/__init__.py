"""Credit assignment: which answer of which agent is paid for what came of a game."""

from srl_train.advantages.credit.assignment import Advantages, Assignment, Seating
from srl_train.advantages.credit.table import ASSIGNMENTS

__all__ = ["ASSIGNMENTS", "Advantages", "Assignment", "Seating"]
