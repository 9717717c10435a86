"""Learning: several models at once, by TRL, stepped from one explicit loop of rounds."""
