"""Play a language model against two scripted opponents, and print a transcript.

The environment is the two-player benchmark: both agents are rewarded for equal actions and pay for
different ones. The embedded model knows the answer format and no strategy.

    python examples/llm_against_scripted.py [folder or hub name of another chat model]
"""

import sys
from statistics import mean

from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play_many
from srl_agents.scripted import Always, TitForTat
from srl_envs import make

STEPS, EPISODES = 6, 20


def make_env():
    """Return the environment: agent_0 is the model, agent_1 its opponent."""
    return make("coop_compete_pair_v0", max_cycles=STEPS)


backend = HuggingFaceBackend.load(sys.argv[1] if len(sys.argv) > 1 else tiny.folder(make_env))
view = make_env().text_view
model = TextPolicy(backend, view, sampling=Sampling(max_new_tokens=16), name="the model")

for opponent in (Always(1), TitForTat()):
    episodes = play_many(make_env, {"agent_0": model, "agent_1": opponent}, seeds=range(EPISODES))
    reward = mean(episode.returns()["agent_0"] for episode in episodes) / STEPS
    print(f"{model.name} against {opponent.name}: {reward:.3f} per step over {EPISODES} episodes")

print(f"\nthe last episode, as {model.name} observed it")
print(view.rules("agent_0"))
for mine, theirs in episodes[-1].turns:
    print(f"  > {view.describe('agent_0', mine.observation)}")
    reply = view.answers("agent_1")[theirs.decision.action]
    print(f"  {mine.decision.text!r} (at the same time, {opponent.name} chose to {reply})")
