"""What does not fit together is refused before the first round, in one line."""

import pytest
from transformers import AutoTokenizer

from srl_envs.games import coop_compete as coop_compete_v0
from srl_train.build import build_run
from srl_train.errors import ConfigError, UpdateError
from tests.srl_train.learners.reference.grpo import small_model

WRONG = [
    ({"environment__name": "chess_v0"}, ConfigError, "environment: .*chess_v0"),
    ({"environment__options": {"num_agnets": 3}}, ConfigError, "environment: .*num_agnets"),
    ({"environment__options": {"difficulty": 3}}, ConfigError, "environment: .*difficulty"),
    ({"seats": {"agent_9": "model_0"}}, ConfigError, "seats: no agent 'agent_9'"),
    (
        {"seats": {"agent_0": "model_7"}},
        ConfigError,
        "seats.agent_0 is 'model_7'.*always_cooperate",
    ),
    ({"models__count": 3}, ConfigError, "seats: model_2 plays no agent"),
    ({"models__agent_sampling": {"x": {}}}, ConfigError, "models.agent_sampling names 'x'"),
    ({"models__sampling": {"temperature": 0}}, ConfigError, "model_0 samples at temperature"),
    (
        {"models__sampling": {"top_p": 0.9}, "updates__sample_budget": {"model_1": 4}},
        ConfigError,
        "updates.sample_budget.model_1 compares model_1 .* agent_1 samples .* top_p 0.9",
    ),
    (
        {
            "models__agent_sampling": {"agent_0": {"top_k": 5}},
            "algorithm__trl": {"off_policy_mask_threshold": 0.1},
        },
        ConfigError,
        "trl.off_policy_mask_threshold compares model_0 .* agent_0 samples .* top_p 1 and top_k 5",
    ),
    (
        {"algorithm__trl": {"sapo_temperature_neg": 2.0}},
        ConfigError,
        "read by the losses sapo, loss",
    ),
    (
        {"algorithm__trl": {"router_aux_loss_coef": 0.1}},
        ConfigError,
        "llama is no mixture of experts",
    ),
    (
        {"models__count": 1, "models__agent_sampling": {"agent_1": {"temperature": 0.5}}},
        ConfigError,
        "one temperature above 0",
    ),
    (
        {"mode": {"name": "hierarchical", "leader": "nobody"}},
        ConfigError,
        "mode.leader must be one of agent_0, agent_1; got 'nobody'",
    ),
    (
        {"updates": {"strategy": "federated", "groups": [["model_0", "model_1"], ["model_1"]]}},
        UpdateError,
        "'model_1' is in 2 groups",
    ),
]


@pytest.mark.parametrize("settings, kind, says", WRONG)
def test_what_does_not_fit_together_is_refused_in_one_line(settings, kind, says, short_run):
    with pytest.raises(kind, match=says) as error:
        build_run(short_run(**settings))
    assert "\n" not in str(error.value)


def test_an_environment_without_a_text_view_is_refused(short_run):
    class Silent(coop_compete_v0.CoopCompete):
        text_view = property(lambda self: None, lambda self, view: None)

    with pytest.raises(ConfigError, match="no text_view"):
        build_run(short_run(), lambda: Silent(variant="pair", max_cycles=2))


def test_models_that_cannot_be_averaged_are_refused(short_run, tiny_folder, tmp_path):
    other = tmp_path / "other"
    small_model().save_pretrained(other)
    AutoTokenizer.from_pretrained(tiny_folder).save_pretrained(other)
    bases = {"models__base": [tiny_folder, str(other)]}
    with pytest.raises(UpdateError, match="model_0 and model_1 cannot be averaged"):
        build_run(short_run(**bases, updates__strategy="synchronized"))
    assert len(build_run(short_run(**bases)).learners) == 2
