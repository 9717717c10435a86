"""Run of a YAML file, as `mrlm train --config FILE` trains."""

import argparse

from mrlm.algorithms.trainer import train_configured
from mrlm.cli import print_results
from mrlm.config import load_config

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="YAML file")
    folder, results = train_configured(load_config(parser.parse_args().config))
    print_results(results)
