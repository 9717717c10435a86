"""Program with vLLM's command line that imitates its server, and starts in milliseconds.

The option --fake (in ServerSpec.extra_arguments) is JSON with: "dies" (exit at the start, with this
message), "dies_of_request", "seconds" (duration of a completion), "hangs" (ignore SIGTERM), "free"
(answers that were not listed), "raw" (log-probabilities before masks).
"""

# ruff: noqa: T201
import argparse
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def interpreter(folder, program=__file__):
    """Write an executable that runs this program for any `-m module`, and return its path."""
    script = Path(folder) / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n')
    script.chmod(0o755)
    return str(script)


class Server(ThreadingHTTPServer):
    daemon_threads = False  # server_close waits for open requests, as vLLM does.

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)


def handler(args, fake, engine):
    class Handler(BaseHTTPRequestHandler):
        def reply(self, status, body=None):
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            if self.path == "/health":
                self.reply(200 if engine.poll() is None else 503)
            else:
                self.reply(200, {"data": [{"id": args.served_model_name}]})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
            if fake.get("dies_of_request"):
                engine.kill()
                print(
                    "(EngineCore pid=7) ERROR 11-22 08:00:00 [core.py:1] ValueError: head size 16"
                )
                print("RuntimeError: Engine core died, see above", flush=True)
                self.reply(500, {"error": "EngineDeadError"})
                os._exit(1)
            if body["model"] != args.served_model_name:
                return self.reply(404, {"error": {"message": f"{body['model']} does not exist"}})
            time.sleep(fake.get("seconds", 0.0))
            [ids] = json.loads(body.get("vllm_xargs", {}).get("answers", "[[5]]"))
            choice = {
                "index": 0,
                "token_ids": [7] * len(ids) if "free" in fake else ids,
                "logprobs": {"token_logprobs": [-2.0 if "raw" in fake else 0.0] * len(ids)},
                "finish_reason": "length",
            }
            if "messages" in body:
                prompt = body["messages"][-1]["content"]
                choice["message"] = {"role": "assistant", "content": f"{prompt} at {args.port}"}
            self.reply(200, {"model": body["model"], "choices": [choice]})

        def log_message(self, *_):
            pass

    return Handler


def main():
    parser = argparse.ArgumentParser()
    for option in ("--model", "--served-model-name", "--host", "--fake"):
        parser.add_argument(option, default="{}")
    parser.add_argument("--port", type=int)
    args, _ = parser.parse_known_args()
    fake = json.loads(args.fake)
    print("started", flush=True)
    if "dies" in fake:
        sys.exit(fake["dies"])
    # vLLM's engine is a process of the same group that does not end with the server.
    engine = subprocess.Popen(["sleep", "600"], start_new_session=False)
    server = Server((args.host, args.port), handler(args, fake, engine))

    def end(*_):
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, signal.SIG_IGN if fake.get("hangs") else end)
    print("engine", engine.pid, flush=True)
    server.serve_forever(poll_interval=0.05)
    server.server_close()


if __name__ == "__main__":
    main()
