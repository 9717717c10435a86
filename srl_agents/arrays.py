"""Array types of games in array form."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Actions = NDArray[np.int8]
"""Actions or situations."""
