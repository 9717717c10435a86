"""Schedule in which rounds are played while models learn from earlier rounds."""
