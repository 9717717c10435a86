"""Ray engine: players, learners and model servers in the actors of a Ray cluster."""
