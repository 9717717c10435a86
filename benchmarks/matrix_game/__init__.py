"""What the benchmark command runs: one setting, or all of them."""
