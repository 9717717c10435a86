"""Evaluation of populations: cross-play, ratings, and game-theoretic rankings."""
