"""Programs that `benchmarks.peers` runs, one per side, and the games that they have in common."""
