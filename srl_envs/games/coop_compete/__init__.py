"""Choose to cooperate or to compete: rules, payoffs and the array form."""
