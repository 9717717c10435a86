"""Where mathematical problems come from: a file per family of generators, and files of problems.

A generator is `draw(rng, difficulty) -> Problem`; the truth is computed beside the question by
exact arithmetic, never read back from it.
"""
