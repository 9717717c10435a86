"""Reports of one run or several."""
