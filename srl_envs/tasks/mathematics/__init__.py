"""Mathematics: environment and generators."""
