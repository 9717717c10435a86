"""Two teams that cooperate within and compete between: rules and the array form."""
