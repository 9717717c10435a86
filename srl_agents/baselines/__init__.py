"""Learning and modelling baselines without a language model."""
