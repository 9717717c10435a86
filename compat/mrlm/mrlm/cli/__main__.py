"""Entry point of `python -m mrlm.cli`, and of `torchrun -m mrlm.cli` in every process."""

import sys

from mrlm.cli import main

sys.exit(main())
