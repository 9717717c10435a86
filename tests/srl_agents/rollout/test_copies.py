"""Copies of environments in the middle of a game."""

from srl_agents.rollout.copies import copied
from srl_envs import registry


def test_copies_of_several_environments_run_programs_in_one_sandbox():
    env = registry.make("multitask_v0")
    env.reset(seed=3)
    ours, theirs = (one.unwrapped.environments["code"].task for one in (env, copied(env)))
    assert theirs is not ours
    assert theirs.sandbox is ours.sandbox
    env.close()
