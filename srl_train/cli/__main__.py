"""`python -m srl_train.cli`, which is what `torchrun -m srl_train.cli` runs in every process."""

from srl_train.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
