"""Mathematics: environment, generators and datasets.

A generator is `draw(rng, difficulty) -> Problem`; the truth is computed beside the question by
exact arithmetic, never read back from it.
"""
