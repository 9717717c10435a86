"""AReaL's own executor and records play our games; its inference engine is scripted."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from srl_extensions.bridges.focal_game import game_of, rows
from tests.srl_extensions.bridges.focal_games import (
    GAME,
    SEED,
    answers_of,
    chat_of,
    our_sample,
    tokenizer,
)

pytestmark = [
    pytest.mark.areal,
    # AReaL and its dependencies warn about each other's releases.
    pytest.mark.filterwarnings("ignore"),
]
EXAMPLE = Path(__file__).parents[3] / "examples/interop/areal_games.py"


class Engine:
    """Stand-in for AReaL's inference engine, with a new weight version per answer."""

    def __init__(self, chat):
        self.chat, self.asked, self.conversations = chat, [], {}

    async def agenerate(self, request):
        from areal.api import ModelResponse

        self.asked.append(request)
        answers = self.conversations.setdefault(request.rid, answers_of(self.chat))
        ids, logprobs = next(answers)
        version = len(self.asked)
        versions = [version] * (len(ids) - 1) + [version + 1]  # an update while it was written
        return ModelResponse(request.input_ids, ids, logprobs, versions)

    def get_version(self):
        return 0


@pytest.fixture(scope="module")
def made():
    return tokenizer()


@pytest.fixture
def executed(made):
    """Rows -> what AReaL's executor takes of their games, and the engine."""
    from areal import WorkflowExecutor
    from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
    from areal.utils import logging

    from srl_extensions.bridges.areal import SrlWorkflow

    def play(data, count, **settings):
        engine = Engine(chat_of(made))
        config = InferenceEngineConfig(
            consumer_batch_size=len(data), check_trajectory_format=True, setup_timeout=60
        )
        executor = WorkflowExecutor(config, engine)
        executor.initialize(logging.getLogger("test"), train_data_parallel_size=1)
        try:
            workflow = SrlWorkflow(GenerationHyperparameters(**settings), made)
            for row in data:
                executor.submit(row, workflow)
            found = executor.wait(count, timeout=60) if count else []
            return found, engine, executor
        finally:
            executor.destroy()

    return play


def test_row_gives_the_same_sample_as_our_trainer(executed, made):
    [found], engine, _ = executed(rows([GAME], [SEED]), 1, temperature=0.7)
    ours = our_sample(engine.chat)
    prompt, told = len(ours.prompt_ids), len(ours.completion_ids)

    assert {value.shape[0] for value in found.values()} == {1}
    assert found["input_ids"][0].tolist() == [*ours.prompt_ids, *ours.completion_ids]
    assert found["loss_mask"][0].tolist() == [0] * prompt + list(ours.mask)
    expected = np.array([0.0] * prompt + list(ours.logprobs), np.float32)
    assert np.array_equal(found["logprobs"][0].numpy(), expected)
    assert found["attention_mask"].all() and found["attention_mask"].shape == (1, prompt + told)
    assert found["rewards"].tolist() == pytest.approx([ours.episode_return])
    # Every token has the version that sampled it, also where they differ within an answer.
    versions = found["versions"][0].tolist()
    assert [v == -1 for v in versions] == [bit == 0 for bit in found["loss_mask"][0].tolist()]
    for start, stop in ours.turns:
        answer = versions[prompt + start : prompt + stop]
        assert answer == [answer[0]] * (len(answer) - 1) + [answer[0] + 1]
    assert len(engine.asked) == 8
    request = engine.asked[0]
    assert (request.gconfig.temperature, request.gconfig.max_new_tokens) == (0.7, 16)
    assert set(engine.chat.stop_ids) <= set(request.gconfig.stop_token_ids)


def test_failed_episodes_are_rejected(executed):
    code = replace(GAME, environment="os:getcwd").to_json()
    data = rows([GAME], [SEED, SEED + 1, SEED + 2])
    data[1]["extra_info"]["game"] = code
    found, _, executor = executed(data, 3)
    assert sorted(one is None for one in found) == [False, False, True]
    assert executor.staleness_manager.get_stats().rejected == 1


def test_example_settings_are_valid_in_areal():
    """AReaL reads the example's configuration, and its workflow the example's rows."""
    from areal.api.alloc_mode import ModelAllocation
    from areal.api.cli_args import GRPOConfig, parse_cli_args, to_structured_cfg
    from areal.utils.dynamic_import import import_from_string
    from omegaconf import OmegaConf

    from srl_extensions.bridges.areal import SrlWorkflow

    spec = importlib.util.spec_from_file_location("areal_games", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    given, _ = parse_cli_args(["--config", str(EXAMPLE.with_suffix(".yaml"))])
    config = OmegaConf.to_object(to_structured_cfg(given, config_cls=GRPOConfig))
    assert config.gconfig.max_tokens == 1536 and config.actor.use_decoupled_loss
    assert ModelAllocation.from_str(config.rollout.backend, name="rollout").backend == "vllm"
    assert import_from_string(example.WORKFLOW) is SrlWorkflow
    game, seed = game_of(example.data()[4])
    assert (game, seed) == (example.GAMES[1], 1)


def test_workflow_is_created_from_names(made, tmp_path):
    from areal.api.cli_args import GenerationHyperparameters
    from areal.utils.dynamic_import import import_from_string

    made.save_pretrained(tmp_path)
    workflow = import_from_string("srl_extensions.bridges.areal.SrlWorkflow")(
        gconfig=GenerationHyperparameters(), tokenizer=str(tmp_path)
    )
    assert workflow.chat.stop_ids == chat_of(made).stop_ids
