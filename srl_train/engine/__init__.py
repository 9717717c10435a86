"""The training loop: rollout, update, evaluation, offline stages, resuming."""
