"""Ray engine: games played and models trained by actors of a Ray cluster."""
