"""The two-player game of the benchmark on arrays: what is paid, who meets whom, what each earns."""
