"""What the project measures, each with the command that measures it."""
