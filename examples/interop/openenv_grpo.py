"""Train one agent of an environment on an OpenEnv server with a plain TRL GRPOTrainer.

The server plays the partner. TRL's `environment_factory` turns FocalAgent's `play` into a tool, so
the model acts by tool calls. No part of our own trainer runs here.

    python examples/interop/openenv_grpo.py
"""

import json
import os
import tempfile
from dataclasses import replace
from functools import partial

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # environment_factory is new in TRL

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from srl_agents.llm import tiny
from srl_agents.partners import WithPartners
from srl_agents.scripted.registry import classic_policy
from srl_extensions.remote.openenv_client import FocalAgent, PartnerGame
from srl_extensions.remote.openenv_server import ServedGame, create_app, in_background

STEPS, GROUP, GROUPS, ROUNDS = 5, 16, 4, 4
SYSTEM = "You play a game by calling its tool once a turn."
GAME = {"variant": "pair", "num_agents": 2, "max_cycles": ROUNDS}


def with_partner(env):
    """Add a partner that cooperates first, then repeats the model's last action."""
    return WithPartners(env, {"agent_1": classic_policy("tit_for_tat", env)})


# Chat models such as Qwen3 have a template with tool calls. The embedded model learns to write tool
# calls from random play, and uses this template.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ 'user' if message['role'] == 'tool' else message['role'] }}\n"
    "{{ message['content'] }}"
    "{% for call in message['tool_calls'] or [] %}"
    "<tool_call>\n{{ call['function'] | tojson }}\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
RESPONSE_TEMPLATE = {
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


class ByToolCalls(PartnerGame):
    """Environment with tool calls as answers, for the embedded model's random play."""

    def __init__(self, url):
        super().__init__(url)
        self.text_view = replace(self.text_view, instructions=SYSTEM)

    def sample_answers(self, agent, rng, count):
        """Yield calls of `play` in the format of chat models."""
        for answer in super().sample_answers(agent, rng, count):
            call = json.dumps({"name": "play", "arguments": {"answer": answer}})
            yield f"<tool_call>\n{call}\n</tool_call>"

    def step(self, actions):
        """Play the answer that each tool call contains."""
        call = json.loads(actions["agent_0"].split("\n")[1])
        return super().step({"agent_0": call["arguments"]["answer"]})


app = create_app(
    {"pair": ServedGame("coop_compete_v0", GAME, around=with_partner)}, max_sessions=100
)
with in_background(app) as url, tempfile.TemporaryDirectory() as output:
    folder = tiny.folder(lambda: ByToolCalls(url), turns=ROUNDS)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    tokenizer.chat_template, tokenizer.response_template = CHAT_TEMPLATE, RESPONSE_TEMPLATE
    prompt = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ""}]
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False),
        processing_class=tokenizer,
        environment_factory=partial(FocalAgent, url),
        # One row per seed. The environment receives the seed and writes the prompt.
        train_dataset=Dataset.from_list([{"prompt": prompt, "seed": s} for s in range(GROUPS)]),
        args=GRPOConfig(
            output_dir=output,
            num_generations=GROUP,
            per_device_train_batch_size=GROUP * GROUPS,
            max_completion_length=400,  # tokens of a whole episode
            generation_kwargs={"max_new_tokens": 32},  # tokens of one answer
            max_tool_calling_iterations=ROUNDS,
            max_steps=STEPS,
            learning_rate=1e-3,
            lr_scheduler_type="constant",
            logging_steps=1,
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
        ),
    )
    trainer.remove_callback(PrinterCallback)  # it would print every metric of every step
    trainer.train()

for number, entry in enumerate(row for row in trainer.state.log_history if "reward" in row):
    print(
        f"step {number}: {entry['reward'] / ROUNDS:.4f} a round, "
        f"{entry['tools/call_frequency']:.2f} calls per episode, "
        f"{entry['tools/failure_frequency']:.2f} of them failed"
    )
