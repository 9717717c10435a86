"""Subcommands that judge players: scores, cross-play, ratings, exploitability, comparisons."""
