"""`make_rollout_func` with TRL 1.16: batches, gradients and refusals."""

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from srl_agents.errors import BackendError, RolloutError
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.scripted import Always
from srl_envs import make
from srl_envs.text import ParseFailure
from srl_extensions.bridges.trl_rollout import episode_return_reward, make_rollout_func
from srl_train.errors import ConfigError

pytestmark = pytest.mark.filterwarnings(
    "ignore:You are using 'rollout_func':UserWarning",  # TRL says so of every use
    "ignore:.*gradient_checkpointing:FutureWarning",  # TRL 1.16's own use of transformers
)
AGENTS = [f"agent_{i}" for i in range(4)]
GROUP = 4


def game(**options):
    return make("coop_compete_v0", num_agents=4, max_cycles=8, **options)


class Recorder:
    """Makes games and remembers the seeds they were reset with."""

    def __init__(self):
        self.seeds = []

    def __call__(self):
        env = game()
        reset = env.reset

        def remembered(seed=None, options=None):
            self.seeds.append(seed)
            return reset(seed=seed, options=options)

        env.reset = remembered
        return env


@pytest.fixture
def trainer_of(tiny_folder, tmp_path):
    def build(rollout_func, rows=4 * GROUP, **arguments):
        return GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(tiny_folder),
            processing_class=AutoTokenizer.from_pretrained(tiny_folder),
            reward_funcs=episode_return_reward,
            rollout_func=rollout_func,
            train_dataset=Dataset.from_list([{"prompt": "a game"}] * 4),
            args=GRPOConfig(
                **{
                    "output_dir": str(tmp_path),
                    "num_generations": GROUP,
                    "per_device_train_batch_size": rows,
                    "max_steps": 2,
                    "learning_rate": 3e-3,
                    "temperature": 0.8,
                    "logging_steps": 1,
                    "use_cpu": True,
                    "bf16": False,
                    "disable_tqdm": True,
                    "report_to": [],
                    "save_strategy": "no",
                    **arguments,
                }
            ),
        )

    return build


def rows_of(rollout, trainer, rows=4 * GROUP):
    return rollout(["a game"] * rows, trainer)


def test_row_contains_one_agent_of_one_episode(trainer_of):
    rollout = make_rollout_func(game, max_new_tokens=4)
    trainer = trainer_of(rollout)
    trainer.model.train()
    columns = rows_of(rollout, trainer)
    assert set(columns) == {
        "prompt_ids", "completion_ids", "logprobs", "env_mask", "episode_return"
    }  # fmt: skip
    assert {len(column) for column in columns.values()} == {4 * GROUP}
    tokenizer = trainer.processing_class
    for row in range(4 * GROUP):
        assert "You are agent_" in tokenizer.decode(columns["prompt_ids"][row])
        ids, mask = columns["completion_ids"][row], columns["env_mask"][row]
        assert len(ids) == len(mask) == len(columns["logprobs"][row])
        assert mask[0] == 1
        written = tokenizer.decode([t for t, own in zip(ids, mask, strict=True) if own])
        assert written.count("cooperate") + written.count("compete") >= 7  # of eight turns
        assert "Round" not in written  # that is what the environment says
        told = [p for p, own in zip(columns["logprobs"][row], mask, strict=True) if not own]
        assert set(told) == {0.0}
    # TRL takes the model's mode for training or evaluation.
    assert trainer.model.training


def test_group_shares_seed_and_agent_and_all_agents_occur(trainer_of):
    made = Recorder()
    rollout = make_rollout_func(made, max_new_tokens=4)
    trainer = trainer_of(rollout)
    columns = rows_of(rollout, trainer)
    texts = trainer.processing_class.batch_decode(columns["prompt_ids"])
    seats = [text.partition("You are ")[2].partition(",")[0] for text in texts]
    groups = [seats[start : start + GROUP] for start in range(0, 4 * GROUP, GROUP)]
    assert [len(set(group)) for group in groups] == [1] * 4
    assert sorted(group[0] for group in groups) == AGENTS
    assert len(made.seeds) == GROUP  # four seats' groups share four games
    assert len(set(made.seeds)) == 1
    # Same start, different course.
    assert len({tuple(ids) for ids in columns["completion_ids"][:GROUP]}) > 1


def test_log_probabilities_equal_those_of_trl(trainer_of):
    rollout = make_rollout_func(game, max_new_tokens=4)
    trainer = trainer_of(rollout)
    columns = rows_of(rollout, trainer)
    for row in (0, 5):
        prompt, ids = columns["prompt_ids"][row], columns["completion_ids"][row]
        together = torch.tensor([prompt + ids])
        with torch.no_grad():
            logps, _, _ = trainer._get_per_token_logps_and_entropies(
                trainer.model, together, torch.ones_like(together), len(ids)
            )
        own = torch.tensor(columns["env_mask"][row], dtype=torch.bool)
        sampled = torch.tensor(columns["logprobs"][row])
        torch.testing.assert_close(sampled[own], logps[0][own], rtol=1e-4, atol=1e-4)


def test_trl_trains_on_episode_returns(trainer_of):
    returned = []
    inner = make_rollout_func(game, max_new_tokens=4)

    def rollout(prompts, trainer):
        columns = inner(prompts, trainer)
        returned.append(columns["episode_return"])
        return columns

    trainer = trainer_of(rollout)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    assert len(returned) == len(rewards) == 2
    assert rewards == pytest.approx([sum(r) / len(r) for r in returned], rel=1e-5)
    assert any(not torch.equal(p, before[name]) for name, p in trainer.model.named_parameters())


def test_randomness_depends_on_seed_step_and_call(trainer_of):
    trainer = trainer_of(make_rollout_func(game))

    def first_rows(seed, calls=1, step=0):
        rollout = make_rollout_func(game, max_new_tokens=4, seed=seed)
        trainer.state.global_step = step
        return [rows_of(rollout, trainer)["completion_ids"] for _ in range(calls)][-1]

    again = first_rows(0)
    assert first_rows(0) == again
    assert first_rows(1) != again
    assert first_rows(0, calls=2) != again  # evaluation batches of one step differ
    later = first_rows(0, step=3)
    assert later != again
    assert first_rows(0, step=3) == later  # a training resumed at step 3 plays this too


def test_parse_failure_costs_the_penalty(trainer_of, monkeypatch):
    view = type(game().text_view)
    monkeypatch.setattr(view, "parse", lambda self, agent, answer: ParseFailure("it is silent"))
    monkeypatch.setattr(view, "parse_penalty", 0.25)
    rollout = make_rollout_func(lambda: game(noise_std=0.0), max_new_tokens=4)
    returns = rows_of(rollout, trainer_of(rollout))["episode_return"]
    # Everyone plays the default, compete: 0.7 + 0.25 * 0.4, less the penalty, eight times.
    assert returns == pytest.approx([8 * (0.8 - 0.25)] * 4 * GROUP)


def test_failed_episode_stops_training(trainer_of, monkeypatch):
    def fails(self, requests):
        raise BackendError("no memory left")

    monkeypatch.setattr(HuggingFaceBackend, "complete", fails)
    rollout = make_rollout_func(game)
    with pytest.raises(RolloutError, match=r"row 0 .*no memory left"):
        rows_of(rollout, trainer_of(rollout))


@pytest.mark.parametrize("others", [["agent_9"], AGENTS])
def test_invalid_agents_are_refused(trainer_of, others):
    rollout = make_rollout_func(game, others=dict.fromkeys(others, Always(1)))
    with pytest.raises(ConfigError, match="others must name"):
        rows_of(rollout, trainer_of(rollout))


def test_incomplete_groups_are_refused(trainer_of):
    rollout = make_rollout_func(game)
    with pytest.raises(ConfigError, match=f"multiple of {GROUP} .*, got 6"):
        rows_of(rollout, trainer_of(rollout), rows=6)
