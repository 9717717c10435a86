"""Tools that an agent may call: each a function with a JSON schema, its failures told as data."""
