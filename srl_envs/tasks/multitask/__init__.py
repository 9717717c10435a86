"""Several environments as one: another in each episode."""
