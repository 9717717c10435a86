"""Distributed training: collectives and sharded weights."""
