"""Optional training methods: replay credit and branching episodes."""
