"""Loading of files, references and documents from others, within limits."""
