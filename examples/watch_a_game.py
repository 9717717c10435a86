"""Record an episode of a market, replay it from the record, and write it as an animation.

Four traders are honest and one never delivers. The record contains the environment's options, the
seed and every action. The replay raises an error if its results differ from the record.

    python examples/watch_a_game.py
"""

from pathlib import Path

from srl_agents.episode import read_jsonl, write_jsonl
from srl_agents.evaluation.replay import remade, replay
from srl_agents.rollout import play
from srl_agents.scripted.registry import classic_policy
from srl_envs import make
from srl_extensions.pages.transcript import write_html

folder = Path("runs/watching")
env = make("social_trading_v0", num_agents=5, max_cycles=24)
honest, cheat = classic_policy("truthful_trader", env), classic_policy("defaulting_trader", env)
policies = dict.fromkeys(env.possible_agents, honest) | {"agent_4": cheat}

episode = play(env, policies, seed=5)
write_jsonl(folder / "episodes.jsonl", [episode])
for agent, gain in episode.returns().items():
    print(f"{agent}, {episode.seats[agent]}: {gain:+g}")

[recorded] = read_jsonl(folder / "episodes.jsonl")
again = remade(recorded)  # the environment, from the record alone
frames = list(replay(recorded, again))  # uint8 arrays (height, width, 3): the start and each step
print(f"replayed {len(frames) - 1} steps with equal rewards; frames of {frames[0].shape}")
for agent, reputation in zip(
    again.possible_agents, map(again.market.reputation, range(5)), strict=True
):
    print(f"reputation of {agent}: {reputation:.2f}")

page = write_html(recorded, frames, folder / "market.html", 0.5, view=again.text_view)
print(f"open {page} in a browser")
