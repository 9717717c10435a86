"""MRLM's documented names, over Core SRL: environments, trainers, configuration and the command.

Every name is a thin face: environments are srl_envs', models answer by srl_agents, and srl_train
trains them. docs/project/mrlm.md of Core SRL says what each does and where it differs.
"""
