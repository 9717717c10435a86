"""Other frameworks on our games, and games of others for our models: make test-interop."""
