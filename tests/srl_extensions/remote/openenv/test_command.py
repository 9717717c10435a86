"""`srl serve openenv`: one environment from the command line."""

import pytest

from srl_extensions.remote import openenv_server as server
from srl_extensions.remote.openenv_client import FocalAgent
from srl_train import cli

PAIR = ["serve", "openenv", "coop_compete_pair_v0", "--set", "max_cycles=2"]


def test_serves_a_game_with_its_partner(monkeypatch, capsys):
    def play_a_game(app, sockets):
        with server.in_background(app) as url:
            agent = FocalAgent(url)
            assert "Round 1 of 2" in agent.reset(seed=0)
            assert agent.play("cooperate").startswith("Round 2 of 2. You chose to cooperate")

    monkeypatch.setattr(server, "serve", play_a_game)
    assert cli.main([*PAIR, "--partner", "agent_1=tit_for_tat", "--port", "0"]) == 0
    assert "serving coop_compete_pair_v0 at http://127.0.0.1:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--partner", "agent_1=pavlov"], "pavlov"),
        (["--partner", "agent_7=pavlov"], "--partner agent_7=pavlov"),
        (["--partner", "tit_for_tat"], "leave out one agent"),
        (["--max-sessions", "0"], "max_sessions"),
        (["--port", "65536"], "--port must be 0 to 65535"),
    ],
)
def test_unservable_environment_is_refused(words, told, capsys):
    assert cli.main([*PAIR, *words]) == 2
    assert told in capsys.readouterr().err
