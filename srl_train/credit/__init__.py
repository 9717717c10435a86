"""Credit assignment: which answer of which seat is paid for what came of a game."""

from srl_train.credit.assignment import Advantages, CreditAssignment, Game, Seating
from srl_train.credit.table import ASSIGNMENTS

__all__ = ["ASSIGNMENTS", "Advantages", "CreditAssignment", "Game", "Seating"]
