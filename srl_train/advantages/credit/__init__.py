"""Credit assignment: which answer of which seat is paid for what came of a game."""

from srl_train.advantages.credit.assignment import Advantages, CreditAssignment, Game, Seating
from srl_train.advantages.credit.table import ASSIGNMENTS

__all__ = ["ASSIGNMENTS", "Advantages", "CreditAssignment", "Game", "Seating"]
