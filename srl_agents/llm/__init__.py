"""Language models as policies: prompts, sampling, constrained answers and backends.

Importing this package takes no torch; `backends.huggingface` and `tiny` do.
"""
