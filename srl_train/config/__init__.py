"""Training configuration: sections, YAML and validation."""
