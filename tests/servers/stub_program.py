"""Program with vLLM's command line that runs the stub of its endpoints."""

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # PYTHONPATH contains the plugins only.

from srl_extensions.vllm.plugins.gate import KEY
from tests.servers.vllm_stub import VLLMStub

parser = argparse.ArgumentParser()
for option in ("--model", "--served-model-name", "--middleware"):
    parser.add_argument(option)
parser.add_argument("--port", type=int)
args, _ = parser.parse_known_args()
key = os.environ[KEY] if args.middleware else None
stub = VLLMStub(Path(args.model), args.served_model_name, args.port, key)
stub.start()
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
over.wait()
stub.stop()
