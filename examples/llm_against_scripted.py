"""A language model plays two scripted opponents, and the transcript of a game.

The game is the two-player benchmark: agreeing pays, disagreeing costs both. The model is the
embedded one; it has learned the rules of answering and no strategy.

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

TURNS, GAMES = 6, 20


def game():
    """Two agents: agent_0 for the model, agent_1 for its opponent."""
    return make("coop_compete_pair_v0", max_cycles=TURNS)


backend = HuggingFaceBackend.load(sys.argv[1] if len(sys.argv) > 1 else tiny.folder(game))
view = game().text_view
model = TextPolicy(backend, view, sampling=Sampling(max_new_tokens=16), name="the model")

for opponent in (Always(1), TitForTat()):
    games = play_many(game, {"agent_0": model, "agent_1": opponent}, seeds=range(GAMES))
    earned = mean(played.returns()["agent_0"] for played in games) / TURNS
    print(f"{model.name} against {opponent.name}: {earned:.3f} a turn over {GAMES} games")

print(f"\nthe last game, as {model.name} saw it")
print(view.rules("agent_0"))
for turn in games[-1].turns:
    mine, theirs = turn
    print(f"  > {view.describe('agent_0', mine.observation)}")
    reply = view.answers("agent_1")[theirs.decision.action]
    print(f"  {mine.decision.text!r} (at the same time, {opponent.name} chose to {reply})")
