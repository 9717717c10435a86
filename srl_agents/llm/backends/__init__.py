"""Where completions come from. `backend` is the contract; each other module is one kind."""
