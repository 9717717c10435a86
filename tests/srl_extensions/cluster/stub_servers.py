"""Model servers in this process: the stub of vLLM's endpoints."""

from pathlib import Path
from typing import ClassVar

from tests.servers.vllm_stub import VLLMStub


class StubServer:
    """Server of a spec with the methods of ModelServer."""

    made: ClassVar = []

    def __init__(self, spec):
        self.spec, self.url = spec, spec.url
        self.log, self._runs = spec.log_folder / "stub.log", False
        self.stub = VLLMStub(Path(spec.model), spec.served_name, spec.port)
        StubServer.made.append(self)

    def alive(self):
        return self._runs

    def start(self):
        self.stub.start()
        self._runs = True

    def kill(self):
        if self._runs:
            self._runs = False
            self.stub.stop()

    def stop(self):
        self.kill()

    def cause_of_death(self):
        return f"it was killed; its log: {self.log}"
