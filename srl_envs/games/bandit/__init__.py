"""A two-armed bandit whose better arm changes: rules and the array form."""
