"""Trainable models: the Learner protocol and those built on TRL."""
