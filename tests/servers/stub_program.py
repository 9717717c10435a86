"""Program with vLLM's command line that runs the stub of its endpoints."""

import argparse
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # PYTHONPATH contains the plugins only.

from tests.servers.vllm_stub import VLLMStub

parser = argparse.ArgumentParser()
for option in ("--model", "--served-model-name"):
    parser.add_argument(option)
parser.add_argument("--port", type=int)
args, _ = parser.parse_known_args()
stub = VLLMStub(Path(args.model), args.served_model_name, args.port)
stub.start()
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
over.wait()
stub.stop()
