"""Speed of the environments, beside their peers."""
