"""What training is claimed to do, measured: one command per file, `python -m
benchmarks.training.NAME`. docs/results.md holds what they printed."""
