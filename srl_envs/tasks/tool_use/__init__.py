"""Tool use: environment, tools with JSON schemas, and problems that need them."""
