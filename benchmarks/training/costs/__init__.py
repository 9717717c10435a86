"""What training costs in time and memory, measured in processes of their own or beside bare TRL."""
