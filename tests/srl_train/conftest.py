"""Short runs with the embedded model."""

import pytest


@pytest.fixture(scope="session")
def short_run(tiny_folder):
    """Return a function that makes a short configuration, with `settings` by dotted name."""
    from srl_train.config.yaml_file import from_tree

    def make(**settings):
        tree = {
            "environment": {
                "name": "coop_compete_v0",
                "options": {"variant": "pair", "num_agents": 2, "max_cycles": 2},
            },
            # Answers of the embedded model have at most four tokens.
            "models": {"count": 2, "base": tiny_folder, "sampling": {"max_new_tokens": 4}},
            "mode": {"name": "cooperative"},
            "rollout": {"group_size": 4, "groups_per_round": 1},
            "checkpoints": {"every": 0},
            "logging": {"evaluation_episodes": 0, "episodes": 0},
            "rounds": 2,
        }
        dotted = {name.replace("__", "."): value for name, value in settings.items()}
        return from_tree(tree, dotted)

    return make
