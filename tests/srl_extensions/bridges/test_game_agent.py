"""TRL's own trainer plays one agent of a game here, for the reward of our own training."""

import json
from dataclasses import replace
from functools import partial

import pytest

from srl_agents.errors import PolicyError
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play
from srl_agents.scripted.registry import classic_policy
from srl_envs import make
from srl_envs.errors import EnvError
from srl_extensions.bridges.focal_game import FocalGame, GameAgent
from srl_train.trajectory import shaped_game
from tests.fakes import ScriptedBackend

OPTIONS = {"variant": "pair", "num_agents": 2, "max_cycles": 3}
GAME = FocalGame("coop_compete_v0", "agent_0", {"agent_1": "uniform"}, OPTIONS)
PLAIN = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "{% for call in message['tool_calls'] or [] %}"
    "<tool_call>\n{{ call['function'] | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CALLS = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "content": "json",
            "repeats": True,
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*", "content": "text"},
    },
}
"""A chat template that renders tool calls, and what reads them; chat models bring theirs."""


def ours(answers, seed):
    """Return our trainer's reward for an agent with these answers."""
    env = make(GAME.environment, **OPTIONS)
    view = env.unwrapped.text_view
    policies = {
        "agent_0": TextPolicy(ScriptedBackend(answers), view),
        "agent_1": classic_policy("uniform", env),
    }
    episode = play(env, policies, seed=seed)
    game = shaped_game(episode, ("agent_0",), lambda raw: raw, view.parse_penalty)
    return sum(game["agent_0"].shaped)


def test_reward_equals_that_of_our_trainer():
    agent = GameAgent(GAME)
    for seed, answers in ((3, ("cooperate", "compete", "who knows")), (4, ("compete",) * 3)):
        assert "agent_0" in agent.reset(seed=seed, prompt="a row's other columns")
        told = [agent.play(answer) for answer in answers]
        assert told[-1].endswith("The game is over.") and agent.play("more") == "The game is over."
        assert agent.get_reward() == pytest.approx(ours(answers, seed))


def test_partners_leave_one_agent_and_are_checked():
    with pytest.raises(EnvError, match="agent_0, agent_1"):
        GameAgent(replace(GAME, partners={}))
    with pytest.raises(PolicyError, match="tit_for_tatt"):
        GameAgent(replace(GAME, partners={"agent_1": "tit_for_tatt"}))


@pytest.fixture
def caller(tiny_folder):
    """A model's folder whose tokenizer knows tool calls; the model is not called."""
    return tiny_folder


@pytest.mark.filterwarnings("ignore")  # TRL's and its libraries' own
def test_trl_trainer_plays_by_tool_calls(caller, tmp_path, monkeypatch):
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    scripts = {3: ["cooperate", "compete", "who knows"], 4: ["compete", "compete", "compete"]}
    tokenizer = AutoTokenizer.from_pretrained(caller)
    tokenizer.chat_template, tokenizer.response_template = PLAIN, CALLS
    left = []

    class Scripted(GRPOTrainer):
        """TRL's trainer, its model's words given: a call of the tool each turn."""

        def _generate_single_turn(self, prompt_ids, *rest, **named):
            if not left:
                left.extend(iter(scripts[row % 2 + 3]) for row in range(len(prompt_ids)))
            written = [
                tokenizer.encode(
                    "<tool_call>\n"
                    + json.dumps({"name": "play", "arguments": {"answer": next(script, "more")}})
                    + "\n</tool_call><|im_end|>",
                    add_special_tokens=False,
                )
                for script in left
            ]
            return written, None

    told = {}

    def watch(environments, completions, **columns):
        told["rewards"] = [agent.get_reward() for agent in environments]
        return [0.0] * len(environments)

    prompt = [{"role": "system", "content": "Play."}, {"role": "user", "content": ""}]
    trainer = Scripted(
        model=AutoModelForCausalLM.from_pretrained(caller),
        processing_class=tokenizer,
        environment_factory=partial(GameAgent, GAME),
        reward_funcs=watch,
        train_dataset=Dataset.from_list([{"prompt": prompt, "seed": 3}]),
        args=GRPOConfig(
            output_dir=str(tmp_path),
            num_generations=2,
            per_device_train_batch_size=2,
            max_completion_length=1024,
            max_tool_calling_iterations=3,
            max_steps=1,
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
        ),
    )
    trainer.train()
    assert told["rewards"] == pytest.approx([ours(scripts[s], 3) for s in (3, 4)])
    [row] = [row for row in trainer.state.log_history if "rewards/GameAgent/mean" in row]
    assert row["rewards/GameAgent/mean"] == pytest.approx(sum(told["rewards"]) / 2)
    assert row["tools/failure_frequency"] == 0.0
