"""One agent of a game on an OpenEnv server, trained by a plain TRL GRPOTrainer.

The server plays the partner. TRL's `environment_factory` makes a tool of FocalAgent's `play`, so
the model plays by tool calls; no part of our own trainer runs here.

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
    """Cooperates, then does what the model did in the round before."""
    return WithPartners(env, {"agent_1": classic_policy("tit_for_tat", env)})


# A chat model such as Qwen3 writes tool calls, and its template renders them. The embedded model
# learns to write them from random play, as it learns any answers, and this is its template.
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
    """The game for the random play that the embedded model starts from: answers are tool calls."""

    def __init__(self, url):
        super().__init__(url)
        self.text_view = replace(self.text_view, text=SYSTEM)

    def sample_answers(self, agent, rng, count):
        """Calls of `play`, as chat models write them."""
        for answer in super().sample_answers(agent, rng, count):
            call = json.dumps({"name": "play", "arguments": {"answer": answer}})
            yield f"<tool_call>\n{call}\n</tool_call>"

    def step(self, actions):
        """Play the answer that the call gives the tool."""
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
        # One row per start: the environment is told its seed, and tells the model the rest.
        train_dataset=Dataset.from_list([{"prompt": prompt, "seed": s} for s in range(GROUPS)]),
        args=GRPOConfig(
            output_dir=output,
            num_generations=GROUP,
            per_device_train_batch_size=GROUP * GROUPS,
            max_completion_length=400,  # a whole game's
            generation_kwargs={"max_new_tokens": 32},  # a turn's
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
        f"{entry['tools/call_frequency']:.2f} calls a game, "
        f"{entry['tools/failure_frequency']:.2f} of them failed"
    )
