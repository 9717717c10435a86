"""Credit assignment: advantages per turn from the outcomes of whole games."""

from srl_train.advantages.credit.assignment import Advantages, Assignment, Seating
from srl_train.advantages.credit.table import ASSIGNMENTS, REPLAYED

__all__ = ["ASSIGNMENTS", "REPLAYED", "Advantages", "Assignment", "Seating"]
