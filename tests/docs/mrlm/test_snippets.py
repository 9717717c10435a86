"""Every snippet of MRLM's documentation runs unchanged, with the documented effect."""

import json
import re
import shlex
import socket
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from mrlm.cli import main
from mrlm.config import ExperimentConfig, TrainingConfig
from mrlm.core import Message, SimulatedEnvironment
from mrlm.games import WrittenGame
from srl_agents.episode import read_jsonl
from srl_envs.tasks.tool_use.builtin_tools import Toolbox
from tests.docs.mrlm.conftest import NAMES, SOURCES
from tests.docs.mrlm.lengths import Lengths

DOCUMENTED = Path(__file__).with_name("snippets.md").read_text(encoding="utf-8")
NAMED = re.compile(r"^## ([^\n]+)\n\n```\w+\n(.*?)\n```", re.MULTILINE | re.DOTALL)
SNIPPETS = dict(NAMED.findall(DOCUMENTED))
SHORTER = {
    "num_epochs=50)": "num_epochs=50, num_rollouts_per_iteration=8, batch_size=4, eval_episodes=2)",
    "num_iterations=50": "num_iterations=1",
    "--num-episodes 20": "--num-episodes 3",
    "-n 100": "-n 4",
    "num_epochs: 100": "num_epochs: 1\n  num_rollouts_per_iteration: 4\n  eval_episodes: 2",
}
"""Numbers of games, and nothing else."""


def shorter(code):
    for documented, ours in SHORTER.items():
        code = code.replace(documented, ours)
    return code


def run(name, given=None):
    names = {"__name__": "__main__", **(given or {})}
    exec(compile(shorter(SNIPPETS[name]), name, "exec", dont_inherit=True), names)
    return names


def test_thirty_seconds(workplace, terse_folder):
    for name in NAMES:
        (workplace / name).parent.mkdir(exist_ok=True)
        (workplace / name).symlink_to(terse_folder)
    names = run("30-second example")
    started = AutoModelForCausalLM.from_pretrained(terse_folder).state_dict()
    learned = names["model"].state_dict()
    assert any(not torch.equal(started[key], learned[key]) for key in started)
    saved = AutoModelForCausalLM.from_pretrained(workplace / "outputs/ppo/final").state_dict()
    assert all(torch.equal(saved[key], learned[key]) for key in saved)
    [row] = map(json.loads, (workplace / "outputs/ppo/metrics.jsonl").read_text().splitlines())
    assert row["environment"]["episodes"] == 8
    record = (workplace / "outputs/ppo/config.yaml").read_text()
    assert "name: math_v0" in record and "gae_lambda: 0.95" in record and "critic: shared" in record
    assert names["policy_env"].step(Message("user", "2 + 2?"))[0].messages[-1].content


def test_four_trainers(workplace, policy):
    from mrlm.algorithms.dpo import DPOTrainer, PreferenceDataset, PreferencePair
    from mrlm.algorithms.grpo import GRPOTrainer
    from mrlm.algorithms.ppo import PPOTrainer
    from mrlm.algorithms.sft import SFTTrainer

    pair = PreferencePair([Message("user", "2 + 2?")], chosen="compete", rejected="cooperate")
    training = TrainingConfig(num_rollouts_per_iteration=8, batch_size=4, eval_episodes=0)
    given = {
        "policy_env": policy,
        "eval_envs": [Lengths()],
        "preference_dataset": PreferenceDataset([pair] * 4),
        "config": ExperimentConfig(training=training),
        **{one.__name__: one for one in (PPOTrainer, GRPOTrainer, DPOTrainer, SFTTrainer)},
    }
    names = run("algorithms", given)
    for algorithm in ("ppo", "grpo", "dpo", "sft"):
        before = {key: one.clone() for key, one in policy.model.state_dict().items()}
        results = names[f"{algorithm}_trainer"].train(num_iterations=1)
        after = policy.model.state_dict()
        assert any(not torch.equal(before[key], after[key]) for key in before), algorithm
        assert (workplace / f"outputs/{algorithm}/final/config.json").is_file()
        assert results["training_completed"]


def answered(environment, answer):
    return environment.step(Message("assistant", answer))


def test_answers_are_graded_in_the_documented_environments():
    code, mathematics, debate = (
        run(f"{name} environment")["env"] for name in ("code", "math", "debate")
    )
    code.seed(0)
    assert "f(" in code.reset().messages[-1].content
    wrong, reward = answered(code, "```python\ndef f(*anything):\n    return 'wrong'\n```")
    assert reward.value < 1 and not wrong.info["success"]
    mathematics.reset()
    assert answered(mathematics, "Answer: 123456789")[1].value == 0.0
    problem = mathematics._game.unwrapped.attempt("agent_0").problem
    right, reward = answered(mathematics, f"Answer: {problem.answer}")
    assert right.done and reward.value == pytest.approx(0.95)
    debate.seed(3)
    debate.reset()
    steps = [answered(debate, "It helps. For example, many people said so.") for _ in range(6)]
    assert [told.done for told, _ in steps] == [False] * 5 + [True]
    assert 0 < steps[-1][1].value <= 1


def test_tools_are_real():
    names = run("tool environment")
    registry, env = names["registry"], names["env"]
    tools = Toolbox(registry.tools).registry.tools
    assert {*tools} == {
        "calculator", "read_file", "write_file", "list_files", "search", "python",
    }  # fmt: skip
    assert tools["calculator"].function(expression="sqrt(16) + sin(pi / 2)") == "5"
    tools["write_file"].function(path="a.txt", content="hello")
    assert tools["read_file"].function(path="a.txt") == "hello"
    assert tools["python"].function(code="print(6 * 7)").strip() == "42"
    assert tools["search"].function(query="photosynthesis")
    env.reset()
    called = '<tool_call>{"name": "calculator", "arguments": {"expression": "2**10"}}</tool_call>'
    told, _ = answered(env, called)
    assert "1024" in told.messages[-1].content and not told.done


def test_a_custom_environment_needs_two_methods():
    kind = run("custom environment")["MyEnvironment"]
    assert issubclass(kind, SimulatedEnvironment)
    assert WrittenGame(kind()).possible_agents == ["agent_0"]


@pytest.fixture(scope="module")
def commands():
    """The documented commands, by their first word after `mrlm`."""
    lines = [line for line in shorter(SNIPPETS["command line"]).splitlines() if line[:4] == "mrlm"]
    return {line.split()[1]: shlex.split(line)[1:] for line in lines}


def with_configs(folder, name="code_generation_ppo.yaml"):
    (folder / "configs").mkdir()
    text = shorter((SOURCES / "configs" / name).read_text(encoding="utf-8"))
    text = text.replace("  num_rollouts_per_iteration: 64\n", "")
    (folder / "configs" / name).write_text(text, encoding="utf-8")


def test_train_then_eval(workplace, commands, capsys):
    with_configs(workplace)
    assert main(commands["train"]) == 0
    assert "the model is in outputs/ppo/final" in capsys.readouterr().out
    assert main([*commands["eval"], "--output", "results/math.json"]) == 0
    found = json.loads((workplace / "results/math.json").read_text())
    [score] = found["scores"]
    assert found["focal"]["name"] == "outputs/ppo/final" and len(score["episodes"]) == 3


def test_collect(workplace, commands, capsys):
    assert main([*commands["collect"]]) == 0
    episodes = list(read_jsonl(workplace / "data/trajectories.json"))
    assert len(episodes) == 4 and all(episode.turns for episode in episodes)
    assert main([*commands["collect"], "--filter-reward", "2"]) == 0
    assert not (workplace / "data/trajectories.json").read_text()


def test_info(commands, capsys):
    assert main(commands["info"]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("ppo", "grpo", "dpo", "sft", "code", "math", "debate"))


@contextmanager
def served(words, folder):
    """A server that was started by the documented command, at a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(port) if word == "50051" else word for word in words]
    command = [sys.executable, "-m", "mrlm.cli", *words]
    path = f"{SOURCES}:{SOURCES.parents[1]}"
    server = subprocess.Popen(
        command, cwd=folder, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert f"127.0.0.1:{port}" in server.stdout.readline()
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)
        server.stdout.close()


def test_serve(workplace, commands):
    from mrlm.environments import RemoteEnvironment
    from mrlm.environments.debate import DebateEnvironment

    with served(commands["serve"], workplace) as address:
        envs = (RemoteEnvironment("math", address) for _ in range(2))
        with closing(next(envs)) as one, closing(next(envs)) as two:
            one.seed(1)
            two.seed(2)
            asked = [env.reset().messages[-1].content for env in (one, two)]
            assert asked[0] != asked[1]  # sessions apart
            told, _ = answered(one, "Answer: 0")
            assert told.info["attempt"] == 1
            assert answered(two, "Answer: 0")[0].info["attempt"] == 1
        with closing(DebateEnvironment(max_turns=1, server_address=address)) as debate:
            debate.reset()
            assert answered(debate, "It is good because it helps.")[0].done
        with closing(RemoteEnvironment("code", address)) as code:
            assert "f(" in code.reset().messages[-1].content


def test_the_documented_configuration_trains(workplace, capsys):
    (workplace / "configs").mkdir()
    text = shorter(SNIPPETS["configuration"])
    (workplace / "configs/my_experiment.yaml").write_text(text)
    assert main(shlex.split(SNIPPETS["training by configuration"])[1:]) == 0
    told = capsys.readouterr().err
    assert "bfloat16" in told
    record = (workplace / "outputs/ppo/config.yaml").read_text()
    assert "name: code_v0" in record and "max_cycles: 3" in record
    assert "learning_rate: 5.0e-06" in record and "dtype: bfloat16" in record
    assert (workplace / "outputs/ppo/final/config.json").is_file()


@pytest.mark.parametrize("command", ["train", "serve", "eval", "collect"])
def test_the_documented_flags_are_there(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    told = capsys.readouterr().out
    for flag in re.findall(r"--[\w-]+", SNIPPETS[f"{command} flags"]):
        assert flag in told
