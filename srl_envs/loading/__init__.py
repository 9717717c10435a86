"""Files, references and documents from others, read within limits."""
