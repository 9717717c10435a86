"""The embedded tiny model: configuration, tokenizer, warm start."""
