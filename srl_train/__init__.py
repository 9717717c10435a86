"""Learning: several models at once, by TRL, stepped from one explicit loop of rounds."""

import logging

# Where bitsandbytes is installed PEFT imports it for every run, and it tells on a CPU that a faster
# kernel is missing, which quantised bases do not use either. Said here: before PEFT is imported.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
