"""The example with a model behind an API trains as it stands, in small, against a local server."""

from pathlib import Path

from srl_train.config import yaml_file
from srl_train.trainer import Trainer
from tests.servers.chat_server import chat_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "configs" / "players" / "api_agent.yaml"


def test_api_agent(tmp_path, tiny_folder):
    whole = yaml_file.load(EXAMPLE)
    assert whole.rounds * whole.rollout.episodes == 40, "its comment counts the answers"
    assert whole.environment.options["max_cycles"] == 4
    smaller = {"rounds": 1, "rollout.group_size": 4, "models.base": tiny_folder}
    with chat_server() as server:
        Trainer(yaml_file.load(EXAMPLE, smaller), tmp_path / "run").fit()
    assert len(server.bodies) == 4 * 4
    assert {(b["model"], b["max_tokens"]) for b in server.bodies} == {("gpt-5-mini", 1024)}
    assert {path.name for path in (tmp_path / "run" / "models").iterdir()} == {"model_0", "model_1"}
