"""Live page of runs: files followed as they grow, documents and their changes, a server."""
