"""verl's own worker, data set and registry play our games; the model's server is scripted."""

import asyncio
import importlib.util
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from srl_extensions.bridges.focal_game import rows, write_rows
from tests.srl_extensions.bridges.focal_games import (
    GAME,
    SEED,
    answers_of,
    chat_of,
    our_sample,
    tokenizer,
)

pytestmark = [
    pytest.mark.verl,
    # verl, Ray and Hydra warn of each other's releases.
    pytest.mark.filterwarnings("ignore"),
]
LENGTH = 512
EXAMPLE = Path(__file__).parents[3] / "examples/interop/verl_games.py"


class Server:
    """Stand-in for verl's server client."""

    def __init__(self, chat):
        self.chat, self.asked, self.conversations = chat, [], {}

    async def generate(self, *, request_id, prompt_ids, sampling_params):
        from verl.workers.rollout.replica import TokenOutput

        self.asked.append(sampling_params)
        answers = self.conversations.setdefault(request_id, answers_of(self.chat))
        ids, logprobs = next(answers)
        step = len(self.asked)
        return TokenOutput(
            token_ids=ids,
            log_probs=logprobs if sampling_params["logprobs"] else None,
            extra_fields={"min_global_steps": step, "max_global_steps": step + 1},
        )


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    from transformers import Qwen2Config

    folder = tmp_path_factory.mktemp("model")
    made = tokenizer()
    made.save_pretrained(folder)
    Qwen2Config(
        vocab_size=len(made), hidden_size=32, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, architectures=["Qwen2ForCausalLM"],
    ).save_pretrained(folder)  # fmt: skip
    return folder


@pytest.fixture
def play(model_folder, tmp_path):
    """Rows -> the batch that verl's worker makes of them, with verl's whole configuration."""
    import verl  # noqa: F401  # finds the loop by its entry point
    from hydra import compose, initialize_config_module
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
    from verl.protocol import DataProto
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    def batch(made, response_length=LENGTH, agent=()):
        path = tmp_path / "games.jsonl"
        write_rows(path, made)
        rollout = "actor_rollout_ref.rollout"
        settings = [
            f"actor_rollout_ref.model.path={model_folder}",
            f"data.train_files={path}",
            f"data.max_prompt_length={LENGTH}",
            f"data.max_response_length={response_length}",
            f"+data.cache_dir={tmp_path}",
            "data.filter_overlong_prompts=False",
            f"{rollout}.name=vllm",
            f"{rollout}.calculate_log_probs=True",
            *(f"{rollout}.agent.{setting}" for setting in agent),
        ]
        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose("ppo_trainer", overrides=settings)
        worker = AgentLoopWorker(config, server := Server(None))
        server.chat = chat_of(worker.tokenizer)
        data = RLHFDataset([str(path)], worker.tokenizer, config.data)
        read = collate_fn([data[number] for number in range(len(data))])
        found = asyncio.run(worker.generate_sequences(DataProto.from_single_dict(read)))
        return found, server

    return batch


def test_verl_finds_the_plugin():
    import verl  # noqa: F401
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry

    assert _agent_loop_registry["srl"]["_target_"].endswith("bridges.verl.SrlAgentLoop")


def test_configuration_sets_the_default_loop(play):
    made = rows([GAME], [SEED])
    whole, _ = play(made)
    del made[0]["agent_name"]
    found, _ = play(made, agent=["default_agent_loop=srl"])
    assert found.batch["responses"].equal(whole.batch["responses"])
    assert found.batch["rm_scores"].equal(whole.batch["rm_scores"])


def test_loop_file_can_trust_its_rows(play, tmp_path):
    made = rows([GAME], [SEED])
    whole, _ = play(made)
    named = replace(GAME, environment="srl_envs.coop_compete_v0:parallel_env")
    made[0] |= {"agent_name": "trusting"}
    made[0]["extra_info"]["game"] = named.to_json()
    path = tmp_path / "loops.yaml"
    target = "srl_extensions.bridges.verl.SrlAgentLoop"
    path.write_text(f"- {{name: trusting, _target_: {target}, trusted: true}}\n")
    found, _ = play(made, agent=[f"agent_loop_config_path={path}"])
    assert found.batch["responses"].equal(whole.batch["responses"])
    assert found.batch["rm_scores"].equal(whole.batch["rm_scores"])


def test_row_gives_the_same_sample_as_our_trainer(play):
    found, server = play(rows([GAME], [SEED]))
    ours = our_sample(server.chat)
    prompt, told = len(ours.prompt_ids), len(ours.completion_ids)

    assert found.batch["prompts"][0, -prompt:].tolist() == list(ours.prompt_ids)
    assert found.batch["attention_mask"][0].sum() == prompt + told
    assert found.batch["responses"][0, :told].tolist() == list(ours.completion_ids)
    assert found.batch["response_mask"][0, :told].tolist() == list(ours.mask)
    assert found.batch["response_mask"].sum() == sum(ours.mask)
    logprobs = found.batch["rollout_log_probs"][0, :told].numpy()
    assert np.array_equal(logprobs, np.array(ours.logprobs, np.float32))
    paid = found.batch["rm_scores"][0]
    assert paid.nonzero().tolist() == [[told - 1]]
    assert paid[told - 1].item() == pytest.approx(ours.episode_return)
    assert found.non_tensor_batch["__num_turns__"].tolist() == [8]
    assert found.non_tensor_batch["unreadable_answers"].tolist() == [0.25]
    steps = found.non_tensor_batch
    assert 1 <= steps["min_global_steps"][0] < steps["max_global_steps"][0] <= 9
    # Two agents with four steps each, sampled with the row's parameters.
    assert len(server.asked) == 8
    assert {asked["max_tokens"] for asked in server.asked} == {GAME.max_new_tokens}
    assert server.asked[0]["temperature"] == 1.0
    assert server.asked[0]["stop_token_ids"] == sorted(server.chat.stop_ids)


def test_response_respects_the_maximum_length(play):
    whole, server = play(rows([GAME], [SEED]))
    ours = our_sample(server.chat)
    room = ours.turns[2][0] + GAME.max_new_tokens - 1  # one short of a third answer
    found, _ = play(rows([GAME], [SEED]), response_length=room)
    length = ours.turns[1][1]
    assert found.batch["attention_mask"][0, -room:].sum() == length
    assert found.batch["responses"][0, :length].equal(whole.batch["responses"][0, :length])


def test_example_settings_are_valid_in_verl(tmp_path, capsys, model_folder):
    """verl composes and validates what the example prints."""
    from hydra import compose, initialize_config_module
    from verl.utils.config import validate_config

    spec = importlib.util.spec_from_file_location("verl_games", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(str(model_folder), str(tmp_path))
    _, *command = shlex.split(capsys.readouterr().out)
    assert command[:2] == ["-m", "verl.trainer.main_ppo"]
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=command[2:])
    validate_config(config, use_reference_policy=False, use_critic=False)
    assert config.actor_rollout_ref.rollout.response_length == 1024
    read = sum(1 for _ in (tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines())
    assert read == 3 * 144 and read % config.data.train_batch_size == 0


def test_rows_cannot_name_code(play):
    made = rows([GAME], [SEED])
    made[0]["extra_info"]["game"] = replace(GAME, environment="os:getcwd").to_json()
    with pytest.raises(ValueError, match="is code that a record names"):
        play(made)
