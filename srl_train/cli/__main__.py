"""Entry point of `python -m srl_train.cli`, and of `torchrun -m srl_train.cli` in every process."""

from srl_train.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
