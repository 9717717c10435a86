"""One embedded model for the whole session, and short runs with it."""

import pytest

from srl_envs import coop_compete_v0


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """The embedded model of the two-player game; it reads and answers every other game as well.

    Built once per session in a folder of its own: what an earlier release left in the user's
    cache is never tested, and nothing is left there.
    """
    from srl_agents.llm import tiny

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CORE_SRL_CACHE", str(tmp_path_factory.mktemp("cache")))
        folder = tiny.folder(lambda: coop_compete_v0.parallel_env(variant="pair", max_cycles=3))
    return str(folder)


@pytest.fixture
def short_run(tiny_folder):
    """Makes the configuration of a run of moments; `settings` go on top, by dotted name."""
    from srl_train.config.yaml_file import from_tree

    def make(**settings):
        tree = {
            "environment": {
                "name": "coop_compete_v0",
                "options": {"variant": "pair", "num_agents": 2, "max_cycles": 2},
            },
            # Four tokens are an answer of this model's; models from elsewhere are given more.
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
