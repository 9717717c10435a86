"""Credit where one act of one agent matters: games needed by each credit assignment."""
