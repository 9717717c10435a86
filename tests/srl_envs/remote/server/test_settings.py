"""Where a server may be reached, by whom, and how it is encrypted."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from srl_envs.errors import EnvConfigError
from srl_envs.remote import connect
from srl_envs.remote.errors import RemoteError
from srl_envs.remote.server.serve import in_thread
from srl_envs.remote.server.settings import ServerSettings, read_tokens

GAME = ["coop_compete_v0"]


@pytest.fixture
def pair(tmp_path):
    """A certificate for localhost, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", key, "-out", certificate, "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def test_calls_are_encrypted_with_a_certificate(pair, monkeypatch):
    certificate, key = pair
    settings = ServerSettings(
        environments=GAME, host="localhost", certificate=certificate, key=key, tokens=["t" * 16]
    )
    with in_thread(settings) as running:
        monkeypatch.setenv("SRL_ENV_CERTIFICATE", str(certificate))
        with connect(running.address, token="t" * 16) as server:
            assert len(server.env("coop_compete_v0").reset(seed=0)[0]) == 4
        monkeypatch.delenv("SRL_ENV_CERTIFICATE")
        with pytest.raises(RemoteError, match=r"One with TLS wants .* SRL_ENV_CERTIFICATE"):
            connect(running.address, token="t" * 16, timeout=0.5)  # in plaintext


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"environments": []}, "name some of coop_compete_v0"),
        ({"environments": ["maze_v9"]}, "did you mean 'maze_v0'"),
        ({"environments": ["no_such_games:chess"]}, "No module named 'no_such_games'"),
        ({"host": "0.0.0.0"}, "is reached from elsewhere: give certificate and key"),
        ({"host": "games.example"}, "is reached from elsewhere: give certificate and key"),
        ({"host": "0.0.0.0", "certificate": "c", "key": "k"}, "give tokens"),
        ({"certificate": "c"}, "belong together"),
        ({"tokens": ["short"]}, "must have 16 printable characters or more, got 5"),
        ({"port": 70_000}, "port must be a whole number from 0 to 65535"),
        ({"threads": 0}, "threads must be a whole number"),
        ({"lease": 0}, "lease must be a number"),
    ],
)
def test_settings_are_checked(wrong, said):
    with pytest.raises(EnvConfigError, match=said):
        ServerSettings(**{"environments": GAME} | wrong)


def test_tokens_are_read_from_a_file_or_the_environment_and_never_shown(tmp_path, monkeypatch):
    file = tmp_path / "tokens"
    file.write_text("x" * 16 + "\n" + "y" * 16 + "\n")
    assert read_tokens(file) == ("x" * 16, "y" * 16)
    monkeypatch.setenv("SRL_ENV_TOKEN", "z" * 16)
    assert read_tokens(None) == ("z" * 16,)
    assert "z" * 16 not in repr(ServerSettings(environments=GAME, tokens=read_tokens(None)))
    monkeypatch.delenv("SRL_ENV_TOKEN")
    assert read_tokens(None) == ()
    file.write_text("\n")
    with pytest.raises(EnvConfigError, match="is empty"):
        read_tokens(file)
    with pytest.raises(EnvConfigError, match="No such file"):
        read_tokens(tmp_path / "none")


def test_what_cannot_be_served_is_said(tmp_path):
    with in_thread(ServerSettings(environments=GAME)) as running:
        port = int(running.address.rpartition(":")[2])
        with (
            pytest.raises(EnvConfigError, match="cannot serve at"),
            in_thread(ServerSettings(environments=GAME, port=port)),
        ):
            pass
    missing = ServerSettings(environments=GAME, certificate=tmp_path / "c", key=tmp_path / "k")
    with pytest.raises(EnvConfigError, match="the certificate cannot be read"), in_thread(missing):
        pass
