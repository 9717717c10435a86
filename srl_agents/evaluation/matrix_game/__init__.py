"""Matrix-game benchmark on arrays: payoffs, matches and cross-play of two players."""
