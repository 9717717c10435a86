"""GRPO for several models in one game, top to bottom: rollout, advantages, loss, update.

The whole algorithm on this library's environments, policies and rollouts, without its trainer and
without TRL. Four models play one agent each; every model learns from its own agent's answers.

    1. Play G episodes from each of a few starts (a group shares its seed).
    2. Blend each agent's rewards with the mean of all (the cooperative mode).
    3. Advantage: an episode's return less the mean return of its group and agent
       (Shao et al. 2024, arXiv 2402.03300, eq. 5, not divided by the group's deviation).
    4. Loss: the clipped ratio of PPO (Schulman et al. 2017, eq. 7) on the sampled
       tokens, and an optimizer step.

    python examples/one_file_grpo.py [rounds]
"""

import sys
from statistics import mean

import torch

from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play_many
from srl_envs import make

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
TURNS = 8
STARTS, GROUP_SIZE = 2, 16  # episodes per round: STARTS * GROUP_SIZE
TEAM_SHARE = 0.6  # of the team's mean in each reward
LEARNING_RATE = 3e-3
CLIP_RANGE = 0.2
PARSE_PENALTY = 0.1  # per answer that could not be read
AGENTS = [f"agent_{index}" for index in range(4)]


def make_env():
    """Everyone cooperates or competes at once: 0.7625 a turn at random, 0.85 at best."""
    return make("coop_compete_v0", num_agents=len(AGENTS), max_cycles=TURNS)


def play_groups(policies, round_number):
    """Groups of episodes: the same start, the policies' own randomness apart."""
    seeds = [round_number * STARTS + start for start in range(STARTS) for _ in range(GROUP_SIZE)]
    episodes = range(round_number * len(seeds), (round_number + 1) * len(seeds))
    return play_many(make_env, policies, seeds=seeds, policy_seeds=list(episodes))


def returns_of(episode):
    """Agent -> the cooperative return of one episode, penalties for unread answers taken off."""
    raw = episode.returns()
    team = mean(raw.values())
    unread = {
        agent: sum(step.decision.parse_failure is not None for step in episode.steps_of(agent))
        for agent in raw
    }
    return {
        agent: (1 - TEAM_SHARE) * raw[agent] + TEAM_SHARE * team - PARSE_PENALTY * unread[agent]
        for agent in raw
    }


def advantages_of(episodes):
    """Per episode, agent -> its return less the mean of its group."""
    returns = [returns_of(episode) for episode in episodes]
    advantages = []
    for start in range(0, len(returns), GROUP_SIZE):
        group = returns[start : start + GROUP_SIZE]
        baseline = {agent: mean(one[agent] for one in group) for agent in AGENTS}
        advantages += [{agent: one[agent] - baseline[agent] for agent in AGENTS} for one in group]
    return advantages


def batch_of(episodes, advantages, agent):
    """One row per episode, padded right: token ids (B, T), and of each token whether the model
    sampled it (B, T), its log-probability then (B, T) and its row's advantage (B, 1)."""
    rows = []
    for episode in episodes:
        ids, sampled, logprobs = [], [], []
        for step in episode.steps_of(agent):
            tokens = step.decision.tokens  # as the backend read and sampled them
            ids += [*tokens.prompt_ids, *tokens.completion_ids]
            sampled += [0.0] * len(tokens.prompt_ids) + [1.0] * len(tokens.completion_ids)
            logprobs += [0.0] * len(tokens.prompt_ids) + list(tokens.logprobs)
        rows.append((torch.tensor(ids), torch.tensor(sampled), torch.tensor(logprobs)))
    ids, sampled, logprobs = (
        torch.nn.utils.rnn.pad_sequence(column, batch_first=True)
        for column in zip(*rows, strict=True)
    )
    return ids, sampled, logprobs, torch.tensor([[one[agent]] for one in advantages])


def grpo_loss(model, ids, sampled, old_logprobs, advantages):
    """The clipped surrogate, a mean over all sampled tokens (token-level, as in DAPO)."""
    # Padding stands on the right and attention looks to the left: no mask is needed.
    logits = model(input_ids=ids).logits[:, :-1]
    logprobs = logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    sampled, old_logprobs = sampled[:, 1:], old_logprobs[:, 1:]
    ratio = torch.exp(logprobs - old_logprobs)
    clipped = ratio.clamp(1 - CLIP_RANGE, 1 + CLIP_RANGE)
    surrogate = torch.minimum(ratio * advantages, clipped * advantages)
    return -(surrogate * sampled).sum() / sampled.sum()


torch.set_num_threads(1)  # the embedded model is too small for more
folder = tiny.folder(make_env)  # or any chat model: "Qwen/Qwen2.5-0.5B-Instruct"
view = make_env().text_view
backends = {agent: HuggingFaceBackend.load(folder, name=f"model of {agent}") for agent in AGENTS}
policies = {
    agent: TextPolicy(backend, view, sampling=Sampling(max_new_tokens=4))
    for agent, backend in backends.items()
}
optimizers = {
    agent: torch.optim.AdamW(backend.model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    for agent, backend in backends.items()
}

for round_number in range(ROUNDS):
    episodes = play_groups(policies, round_number)
    advantages = advantages_of(episodes)
    for agent, backend in backends.items():
        loss = grpo_loss(backend.model, *batch_of(episodes, advantages, agent))
        optimizers[agent].zero_grad()
        loss.backward()
        optimizers[agent].step()
        backend.weights_version += 1  # what was cached under the old weights is stale
    reward = mean(mean(episode.returns().values()) for episode in episodes) / TURNS
    print(f"round {round_number}: {reward:.4f} a turn")
