"""What trained models do with levels, markets and problems that nobody trained on."""
