"""The server: sessions of environments for clients elsewhere, within limits."""
