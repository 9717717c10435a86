"""Server of Core SRL's games for OpenEnv."""
