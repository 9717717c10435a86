"""Schedule that plays rounds while models learn from earlier ones."""
