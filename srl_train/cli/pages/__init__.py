"""Commands that make pages: reports, comparisons and replays."""
