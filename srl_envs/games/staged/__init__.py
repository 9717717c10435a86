"""A coordination game whose interests part in stages: rules and the array form."""
