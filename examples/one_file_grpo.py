"""Train several models with GRPO in one file: rollout, advantages, loss, update.

The algorithm uses this library's environments, policies and rollouts, without its trainer and
without TRL. Each of four models plays one agent and trains on that agent's answers.

    1. Play a group of G episodes for each of a few seeds.
    2. Blend each agent's return with the mean over agents (the cooperative mode).
    3. Advantage: return minus the agent's mean return in the group (Shao et al. 2024,
       arXiv 2402.03300, section 4.1.2, without division by the standard deviation).
    4. Loss: PPO's clipped surrogate (Schulman et al. 2017, eq. 7) on the sampled
       tokens, then one optimizer step.

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
STEPS = 8
GROUPS, GROUP_SIZE = 2, 16  # episodes per round: GROUPS * GROUP_SIZE
TEAM_SHARE = 0.6  # weight of the mean over agents in each return
LEARNING_RATE = 3e-3
CLIP_RANGE = 0.2
PARSE_PENALTY = 0.1  # per answer that could not be parsed
AGENTS = [f"agent_{index}" for index in range(4)]


def make_env():
    """Return the environment. Reward per agent and step: 0.7625 for random play, 0.85 at best."""
    return make("coop_compete_v0", num_agents=len(AGENTS), max_cycles=STEPS)


def play_groups(policies, round_number):
    """Play groups of episodes: one environment seed per group, one policy seed per episode."""
    seeds = [round_number * GROUPS + group for group in range(GROUPS) for _ in range(GROUP_SIZE)]
    episodes = range(round_number * len(seeds), (round_number + 1) * len(seeds))
    return play_many(make_env, policies, seeds=seeds, policy_seeds=list(episodes))


def returns_of(episode):
    """Return each agent's cooperative return in an episode, minus penalties for parse failures."""
    raw = episode.returns()
    team = mean(raw.values())
    failures = {
        agent: sum(step.decision.parse_failure is not None for step in episode.steps_of(agent))
        for agent in raw
    }
    return {
        agent: (1 - TEAM_SHARE) * raw[agent] + TEAM_SHARE * team - PARSE_PENALTY * failures[agent]
        for agent in raw
    }


def advantages_of(episodes):
    """Return, per episode, each agent's return minus its mean in the group."""
    returns = [returns_of(episode) for episode in episodes]
    advantages = []
    for start in range(0, len(returns), GROUP_SIZE):
        group = returns[start : start + GROUP_SIZE]
        baseline = {agent: mean(one[agent] for one in group) for agent in AGENTS}
        advantages += [{agent: one[agent] - baseline[agent] for agent in AGENTS} for one in group]
    return advantages


def batch_of(episodes, advantages, agent):
    """Return one agent's tokens of all episodes as a batch, padded on the right.

    Returns:
        Token ids (B, T), 1.0 for each sampled token (B, T), log-probabilities of the sampled
        tokens (B, T), and advantages (B, 1).
    """
    rows = []
    for episode in episodes:
        ids, sampled, logprobs = [], [], []
        for step in episode.steps_of(agent):
            tokens = step.decision.tokens  # exactly as sampled, never tokenized again
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
    """Return the clipped surrogate loss, averaged over all sampled tokens (as in DAPO)."""
    # Padding is on the right and attention is causal, so no attention mask is needed.
    logits = model(input_ids=ids).logits[:, :-1]
    logprobs = logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    sampled, old_logprobs = sampled[:, 1:], old_logprobs[:, 1:]
    ratio = torch.exp(logprobs - old_logprobs)
    clipped = ratio.clamp(1 - CLIP_RANGE, 1 + CLIP_RANGE)
    surrogate = torch.minimum(ratio * advantages, clipped * advantages)
    return -(surrogate * sampled).sum() / sampled.sum()


torch.set_num_threads(1)  # more threads slow down a model of this size
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
        backend.weights_version += 1  # the backend drops keys and values of older weights
    reward = mean(mean(episode.returns().values()) for episode in episodes) / STEPS
    print(f"round {round_number}: mean reward {reward:.4f}")
