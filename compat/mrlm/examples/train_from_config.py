"""A run as a YAML file says it: what `mrlm train --config FILE` does.

python examples/train_from_config.py configs/quick_start.yaml
"""

import argparse

from policy import tell

from mrlm.algorithms.configured import train_configured
from mrlm.algorithms.training import Place
from mrlm.config import load_config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a YAML file")
    config = load_config(parser.parse_args().config)
    tell(train_configured(config, Place.of(config, config.training.algorithm)))


if __name__ == "__main__":
    main()
