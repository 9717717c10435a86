"""What training costs in time and memory, alone, beside bare TRL, ahead of learning, and served."""
