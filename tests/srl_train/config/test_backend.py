"""Section `backend`: addresses of running servers, and options of servers that a run starts."""

import pytest

from srl_extensions.vllm.config import ManagedServersConfig, VLLMBackendConfig
from srl_train.errors import ConfigError


@pytest.mark.parametrize(
    "servers",
    [
        ["127.0.0.1:8001"],
        ["ftp://127.0.0.1:8001"],
        ["http://user:word@127.0.0.1:8001"],
        ["http://127.0.0.1:8001", "http://127.0.0.1:8001/v1"],
    ],
)
def test_wrong_server_addresses_are_refused(servers):
    good = ("http://127.0.0.1:8001", "https://gpu.example/v1", "http://[::1]:8001/")
    assert VLLMBackendConfig(servers=good).servers == good
    with pytest.raises(ConfigError, match="servers: got"):
        VLLMBackendConfig(servers=servers)


@pytest.mark.parametrize("name", ["host", "hos", "served_model_name", "--host", "host=0.0.0.0"])
def test_options_cannot_change_the_address_of_a_server(name):
    options = ManagedServersConfig(options={"max-num-seqs": 8, "async_scheduling": True}).options
    assert options == {"max-num-seqs": 8, "async-scheduling": True}
    with pytest.raises(ConfigError, match="options: got"):
        ManagedServersConfig(options={name: "0.0.0.0"})
