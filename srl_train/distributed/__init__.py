"""Several processes: collectives and sharded weights."""
