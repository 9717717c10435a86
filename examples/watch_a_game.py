"""A market of honest traders and one who never delivers: played, recorded, checked and watched.

The record holds how the game was made, the seed and every move, so anyone can play it again. It
says so if what comes out is not what was recorded.

    python examples/watch_a_game.py
"""

from pathlib import Path

from srl_agents.episode import read_jsonl, write_jsonl
from srl_agents.evaluation.replay import remade, replay
from srl_agents.rollout import play
from srl_agents.scripted.registry import classic_policy
from srl_envs import make
from srl_extensions.pages.animation import write_html

folder = Path("runs/watching")
game = make("social_trading_v0", num_agents=5, max_cycles=24)
honest, cheat = classic_policy("truthful_trader", game), classic_policy("defaulting_trader", game)
policies = dict.fromkeys(game.possible_agents, honest) | {"agent_4": cheat}

episode = play(game, policies, seed=5)
write_jsonl(folder / "games.jsonl", [episode])
for agent, gain in episode.returns().items():
    print(f"{agent}, {episode.seats[agent]}: {gain:+g}")

[recorded] = read_jsonl(folder / "games.jsonl")
again = remade(recorded)  # the environment, from the record alone
frames = list(replay(recorded, again))  # a uint8 array (height, width, 3) per turn, and the start
print(f"played again: {len(frames) - 1} turns, the same rewards; frames of {frames[0].shape}")
for agent, reputation in zip(
    again.possible_agents, map(again.market.reputation, range(5)), strict=True
):
    print(f"{agent} keeps its word: {reputation:.2f}")

page = write_html(recorded, frames, folder / "market.html", 0.5, view=again.text_view)
print(f"open {page} in a browser")
