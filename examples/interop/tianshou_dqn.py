"""Tianshou's DQN on its PettingZooEnv: a learner of its own for every agent.

python examples/interop/tianshou_dqn.py
"""

import torch
from tianshou.algorithm import DQN, MultiAgentOffPolicyAlgorithm
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

from srl_envs import coop_compete_v0

AGENTS, ROUNDS, STEPS = 4, 8, 4000  # a step is one agent's


def game():
    """The AEC form, which is what PettingZooEnv wraps."""
    return PettingZooEnv(coop_compete_v0.env(num_agents=AGENTS, max_cycles=ROUNDS))


def learner():
    """DQN for one agent."""
    return DQN(
        policy=DiscreteQLearningPolicy(
            model=Net(
                state_shape=env.observation_space.shape,
                action_shape=env.action_space.n,
                hidden_sizes=(32,),
            ),
            action_space=env.action_space,
            eps_training=0.2,
        ),
        optim=AdamOptimizerFactory(lr=1e-2),
        gamma=0.9,
        # All choose at once, so rewards come with the last agent's step. Tianshou looks for a
        # agent's reward at its own step: returns over as many steps as there are agents find it.
        n_step_return_horizon=AGENTS,
        target_update_freq=50,
    )


torch.manual_seed(0)
env = game()
algorithm = MultiAgentOffPolicyAlgorithm(algorithms=[learner() for _ in range(AGENTS)], env=env)
games = DummyVectorEnv([game] * 4)
games.seed(0)
training = Collector(algorithm, games, VectorReplayBuffer(20_000, 4), exploration_noise=True)
evaluation = Collector(algorithm, DummyVectorEnv([game] * 4))
training.reset()
evaluation.reset()
before = training.collect(n_episode=32, random=True).returns.mean() / ROUNDS
algorithm.run_training(
    OffPolicyTrainerParams(
        training_collector=training,
        max_epochs=1,
        epoch_num_steps=STEPS,
        collection_step_num_env_steps=256,
        batch_size=128,
        update_step_num_gradient_steps_per_sample=0.1,
        multi_agent_return_reduction=lambda returns: returns.mean(axis=-1),
        verbose=False,
        show_progress=False,
    )
)
after = evaluation.collect(n_episode=32).returns.mean() / ROUNDS
print(f"uniform play earned {before:.4f} a round, DQN after {STEPS} steps {after:.4f}")
print(f"to expect: {env.env.unwrapped.baselines()}")
