"""What a debate is made of: topics, what was said, and how it is judged."""
