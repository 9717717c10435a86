"""Optional parts, one folder each."""
