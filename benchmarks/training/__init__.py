"""What training achieves and costs: one command over a table of claims."""
