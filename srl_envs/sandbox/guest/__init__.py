"""Code that runs in the interpreter of the sandbox, with the standard library alone."""
