"""Stand-ins for servers' processes: vLLM's endpoints in this process, behind their gates."""

from pathlib import Path
from typing import ClassVar

from srl_agents.serving.plugins.gate import GUEST_KEY, OWNER_KEY
from srl_agents.serving.server import Server
from tests.servers.vllm_stub import VLLMStub


class StubServer(Server):
    made: ClassVar = []

    def __init__(self, spec):
        super().__init__(spec)
        self.log, self._runs = spec.log_folder / "stub.log", False
        keys = {OWNER_KEY: spec.keys.owner, GUEST_KEY: spec.keys.guest}
        self.stub = VLLMStub(Path(spec.model), spec.served_name, spec.port, keys)
        StubServer.made.append(self)

    @property
    def alive(self):
        return self._runs

    def start(self):
        self.stub.start()
        self._runs = True

    def kill(self):
        if self._runs:
            self._runs = False
            self.stub.stop()

    async def stop(self, drain=0.0):
        self.kill()

    def cause_of_death(self):
        return "it was killed"

    def lay(self, folder):
        raise NotImplementedError("a worker lays files itself")

    clear = lay

    def _log_place(self):
        return f"its log: {self.log}"
