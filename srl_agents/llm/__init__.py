"""Language models as players: conversation tokens, sampling, constrained answers, backends.

Importing this package takes no torch; `backends.huggingface` and `tiny` do.
"""
